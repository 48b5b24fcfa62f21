/* SPDX-License-Identifier: Apache-2.0 */
#include "api/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

uint64_t percent_of(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (uint64_t)(100.0 * (double)part / (double)whole);
}

static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count - (count != 0); /* the folder's own */
}

/* "Threads:\t12" of /proc/self/status, "MemAvailable:   123 kB" of /proc/meminfo: the number. */
static uint64_t number_in(const char *path, const char *name)
{
    char line[200];
    uint64_t n = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            n = strtoull(line + strlen(name) + 1, NULL, 10);
            break;
        }
    fclose(f);
    return n;
}

void process_figures_get(struct process_figures *out)
{
    struct rusage usage = {0};
    struct rlimit files = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    *out = (struct process_figures){
        .resident = number_in("/proc/self/status", "VmRSS") * 1024,
        .virtual_ = number_in("/proc/self/status", "VmSize") * 1024,
        .threads = number_in("/proc/self/status", "Threads"),
        .files = open_files(),
        .files_max = files.rlim_cur,
        .cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000,
    };
}

void machine_figures_get(struct machine_figures *out)
{
    struct sysinfo info = {0};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    (void)sysinfo(&info);
    uint64_t available = number_in("/proc/meminfo", "MemAvailable") * 1024;
    *out = (struct machine_figures){
        .memory = (uint64_t)info.totalram * info.mem_unit,
        .memory_free = available != 0 ? available : (uint64_t)info.freeram * info.mem_unit,
        .swap = (uint64_t)info.totalswap * info.mem_unit,
        .swap_free = (uint64_t)info.freeswap * info.mem_unit,
        .processors = processors > 0 ? (unsigned)processors : 1,
    };
    (void)getloadavg(out->load, 3);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files, without libFuzzer: replay_<thing> FILE-OR-DIRECTORY...
 * A fault shows as a crash or a sanitizer's report; the name of the input is printed before it
 * runs. Each input lies in memory of its own size, so that reading past its end is seen. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t inputs;

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    long len = ftell(f);
    rewind(f);
    uint8_t *data = malloc(len > 0 ? (size_t)len : 1);
    if (len < 0 || data == NULL || fread(data, 1, (size_t)len, f) != (size_t)len) {
        perror(path);
        exit(1);
    }
    fclose(f);
    printf("%s\n", path);
    fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, (size_t)len);
    free(data);
    inputs++;
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path);
        return;
    }
    struct dirent **names;
    int n = scandir(path, &names, not_hidden, alphasort);
    if (n < 0) {
        perror(path);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char child[4096];
        if (snprintf(child, sizeof child, "%s/%s", path, names[i]->d_name) < (int)sizeof child)
            replay(child);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    /* Every target takes the empty input and a single byte. */
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    uint8_t zero = 0;
    (void)LLVMFuzzerTestOneInput(&zero, 1);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%zu inputs\n", inputs);
    return 0;
}

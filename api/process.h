/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of this process and its machine, for _nodes, _cat and _cluster/stats. What
 * it does not say is 0. */
#ifndef STOWD_PROCESS_H
#define STOWD_PROCESS_H

#include "config/base.h"

struct process_figures {
    uint64_t resident, virtual_; /* bytes */
    uint64_t threads;
    uint64_t files, files_max; /* open descriptors, and how many there may be */
    uint64_t cpu_ms;           /* user and system time since start */
};
void process_figures_get(struct process_figures *out);

struct machine_figures {
    uint64_t memory, memory_free; /* bytes; free: what may be had, the page cache included */
    uint64_t swap, swap_free;     /* bytes */
    double load[3];               /* of 1, 5 and 15 minutes */
    unsigned processors;
};
void machine_figures_get(struct machine_figures *out);

/* A share in whole per cent. */
uint64_t percent_of(uint64_t part, uint64_t whole);

#endif

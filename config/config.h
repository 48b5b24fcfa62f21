/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the process, from a YAML file, the environment and flags; the table is options.def.
 *
 *   C1  later sources win: defaults, file, environment, flags; the caller keeps the order.
 *   C2  an unknown name or a bad value is RC_INVALID with one line that names the source, the
 *       setting and what is allowed.
 *   C3  a setting is not given twice in one file. */
#ifndef STOWD_CONFIG_H
#define STOWD_CONFIG_H

#include "config/base.h"
#include "config/buf.h"
#include "config/limits.h"

/* Value of a SIZE_AUTO setting that says "auto". */
#define CONFIG_AUTO UINT64_MAX

/* Not in the table: security.users.NAME = PASSWORD, or @FILE whose first line it is. Such a user
 * may do all. Who can see the process's arguments, environment or file sees it: for tests and
 * containers. */
struct config_user {
    char *name;
    char *password;
};

struct config {
    struct config_user *users;
    size_t user_count;
#define SECTION(title)
#define TEXT(field, name, value, help)                   char *field;
#define CHOICE(field, name, value, choices, help)        char *field;
#define FLAG(field, name, value, help)                   bool field;
#define COUNT(field, name, value, least, most, help)     uint64_t field;
#define SIZE(field, name, value, least, most, help)      uint64_t field;
#define SIZE_AUTO(field, name, value, least, most, help) uint64_t field;
#define TIME(field, name, value, least, most, help)      uint64_t field;
#include "config/options.def"
#undef SECTION
#undef TEXT
#undef CHOICE
#undef FLAG
#undef COUNT
#undef SIZE
#undef SIZE_AUTO
#undef TIME
};

/* Set every field to its default. Whatever comes of it, config_done frees it. */
MUST_CHECK enum rc config_init(struct config *config, struct err *err);
void config_done(struct config *config);
void config_forget_users(struct config *config); /* wipe their passwords */

/* A YAML file: mappings, nested or with dotted keys, of plain values. RC_IO when it can't be read.
 */
MUST_CHECK enum rc config_load_file(struct config *config, const char *path, struct err *err);

/* STOWD_HTTP_PORT=9200 for http.port. Names of a section that there is (STOWD_HTTP_…) must be
 * known; others belong to somebody else (Kubernetes sets STOWD_SERVICE_HOST) and are passed over.
 */
MUST_CHECK enum rc config_load_env(struct config *config, char *const *environment,
                                   struct err *err);

/* "name=value"; source is for the message: "-E". */
MUST_CHECK enum rc config_set(struct config *config, const char *assignment, const char *source,
                              struct err *err);

void config_print_help(struct buf *out);    /* the list for --help */
void config_print_example(struct buf *out); /* config/stowd.yml */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "server/guard.h"

#include "config/users.h"
#include "server/listen.h"
#include "server/log.h"

#include <sys/stat.h>

/* Is there somebody who could come in? Says so when others on this machine can read the hashes. */
static enum rc check_users(const struct config *config, const char *path, struct err *err)
{
    struct users users = {NULL, 0};
    struct stat st;
    enum rc rc = users_load(path, &users, err);
    size_t count = users.count + config->user_count;
    users_done(&users);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (count == 0)
        return err_set(
            err, RC_INVALID, 0,
            "security.enabled: there is no user in %.120s (stowctl user add PATH NAME ROLE)", path);
    if (rc == RC_OK && stat(path, &st) == 0 && (st.st_mode & S_IROTH) != 0)
        log_event(LOG_WARN, "security: everybody on this machine can read %s", path);
    return RC_OK;
}

enum rc guard_decide(const struct config *config, int listen_fd, struct guard *out, struct err *err)
{
    struct guard guard = {0};
    struct stat st;
    bool local = listen_is_local(listen_fd);
    bool off = strcmp(config->security_enabled, "false") == 0;
    bool certificate = *config->http_tls_certificate != '\0', key = *config->http_tls_key != '\0';

    if (certificate != key)
        return err_set(err, RC_INVALID, 0,
                       "http.tls.certificate and http.tls.key are given together or not at all");
    if (*config->security_users_file != '\0')
        snprintf(guard.users_file, sizeof guard.users_file, "%s", config->security_users_file);
    else
        snprintf(guard.users_file, sizeof guard.users_file, "%s/users", config->path_data);
    guard.on = strcmp(config->security_enabled, "true") == 0 ||
               (!off && (config->user_count > 0 || stat(guard.users_file, &st) == 0));
    if (!guard.on && !off && !local)
        return err_set(
            err, RC_INVALID, 0,
            "network.host [%.60s] lets other machines in, and nobody is asked for a "
            "password: add a user (stowctl user add PATH NAME ROLE) or set security.enabled: false",
            config->network_host);
    if (guard.on)
        TRY(check_users(config, guard.users_file, err));
    if (guard.on && !local && !certificate)
        log_event(LOG_WARN, "security: passwords pass the network unencrypted, see "
                            "http.tls.certificate");
    guard.local = local;
    *out = guard;
    return RC_OK;
}

/* What both programs have in common: a failed call ends them. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>

#include "quickset.h"

#define PROTOCOL "updates/1"
#define UPDATES 200
#define PARTS 4
#define TIMEOUT_MS 20000

/* Ends the program with the sentence of the library unless `status` is QS_OK. */
static void must(qs_status status, const char *what)
{
    if (status != QS_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, qs_error_string(status), qs_error_message());
        exit(1);
    }
}

#endif

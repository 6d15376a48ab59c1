/* Needs nothing but a kernel: no shell, no library, no MPI. Every rank says where it runs, as an MPI
 * hello does, and learns through PMI-1 where the others run; with a number of pods as argument the
 * program fails if the ranks are not on exactly so many. Without PMI it is rank 0 of 1.
 *
 * PMI-1 as MPICH speaks it: lines of `cmd=NAME key=value…` over the descriptor in PMI_FD. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1200, NAME = 256 };

static int pmi = -1;

static void fail(const char *why, const char *what)
{
    fprintf(stderr, "static: %s %s\n", why, what);
    exit(1);
}

/* Sends a line and reads the answer, byte by byte: nothing of a later answer may be taken. */
static void ask(char *answer, const char *format, ...)
{
    char line[LINE];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    for (int done = 0; done < length;) {
        ssize_t written = write(pmi, line + done, (size_t)(length - done));
        if (written <= 0)
            fail("cannot write to PMI:", line);
        done += (int)written;
    }
    int at = 0;
    do {
        if (at == LINE - 1 || read(pmi, answer + at, 1) != 1)
            fail("no answer from PMI to", line);
    } while (answer[at++] != '\n');
    answer[at - 1] = 0;
}

/* Copies the value of a key in an answer. */
static void value(char *out, const char *answer, const char *key)
{
    const char *at = strstr(answer, key);
    if (!at)
        fail("PMI's answer lacks", key);
    at += strlen(key);
    size_t length = strcspn(at, " ");
    if (length >= NAME)
        fail("too long in PMI's answer:", key);
    memcpy(out, at, length);
    out[length] = 0;
}

static int number(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        fail("PMI_FD is set, but not", name);
    return atoi(text);
}

int main(int argc, char **argv)
{
    char mine[NAME] = {0}, answer[LINE], space[NAME], (*hosts)[NAME];
    int rank = 0, size = 1, pods = 0;
    gethostname(mine, NAME - 1);
    if (getenv("PMI_FD")) {
        pmi = number("PMI_FD");
        rank = number("PMI_RANK");
        size = number("PMI_SIZE");
    }
    hosts = calloc((size_t)size, NAME);
    if (pmi < 0) {
        strcpy(hosts[0], mine);
    } else {
        ask(answer, "cmd=init pmi_version=1 pmi_subversion=1\n");
        ask(answer, "cmd=get_my_kvsname\n");
        value(space, answer, "kvsname=");
        ask(answer, "cmd=put kvsname=%s key=host-%d value=%s\n", space, rank, mine);
        ask(answer, "cmd=barrier_in\n");
        for (int i = 0; i < size; i++) {
            ask(answer, "cmd=get kvsname=%s key=host-%d\n", space, i);
            value(hosts[i], answer, "value=");
        }
        ask(answer, "cmd=finalize\n");
    }
    for (int i = 0; i < size; i++) {
        int seen = 0;
        for (int j = 0; j < i && !seen; j++)
            seen = strcmp(hosts[i], hosts[j]) == 0;
        pods += !seen;
    }
    printf("rank %d of %d on %s\n", rank, size, mine);
    fflush(stdout);
    int wrong = argc > 1 && atoi(argv[1]) != pods;
    if (wrong && rank == 0)
        fprintf(stderr, "static: %d ranks are on %d pods, not on %s\n", size, pods, argv[1]);
    free(hosts);
    return wrong;
}

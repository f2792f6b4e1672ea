/* Asks one server for the same answer again and again, over several connections.

   small_client PORT CONNECTIONS PIPELINED COUNT ANSWER REQUEST

   REQUEST is a file with one request's frame, ANSWER the bytes of each answer with its length.
   Prints the seconds that COUNT answers took, and the seconds of its own CPU. Ends with 1 and a
   message where an answer has another size, or a connection ends. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define PIPELINED_MAX 64
#define REQUEST_MAX (64 << 10)
#define BUFFER_SIZE (1 << 20)

struct connection {
    int socket;
    long left;           /* bytes of the answer that is being read */
    unsigned char length[4];
    int length_has;      /* bytes of the length */
};

static struct connection connections[CONNECTIONS_MAX];
static unsigned char requests[PIPELINED_MAX * REQUEST_MAX], buffer[BUFFER_SIZE];
static size_t request_size;
static long answer_size, to_ask, to_come;

static void fail(const char *why) {
    fprintf(stderr, "small_client: %s: %s\n", why, errno ? strerror(errno) : "no error");
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void ask(struct connection *one, long count) {
    if (count > to_ask) count = to_ask;
    to_ask -= count;
    size_t size = count * request_size;
    if (size && send(one->socket, requests, size, 0) != (ssize_t)size) fail("send");
}

/* Counts the answers that end in these bytes. */
static long taken(struct connection *one, const unsigned char *data, long size) {
    long count = 0;
    while (size) {
        if (!one->left) {
            one->length[one->length_has++] = *data++;
            size--;
            if (one->length_has < 4) continue;
            one->length_has = 0;
            unsigned char *n = one->length;
            one->left = (long)n[0] << 24 | n[1] << 16 | n[2] << 8 | n[3];
            if (one->left != answer_size - 4) fail("an answer has another size");
            continue;
        }
        long part = size < one->left ? size : one->left;
        data += part, size -= part, one->left -= part;
        if (!one->left) count++;
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc != 7) fail("six arguments");
    int count = atoi(argv[2]), pipelined = atoi(argv[3]), turns = epoll_create1(0);
    to_ask = to_come = atol(argv[4]);
    answer_size = atol(argv[5]);
    FILE *file = fopen(argv[6], "rb");
    if (!file) fail(argv[6]);
    request_size = fread(requests, 1, REQUEST_MAX, file);
    if (count > CONNECTIONS_MAX || pipelined > PIPELINED_MAX) fail("too many");
    for (int i = 1; i < pipelined; i++)
        memcpy(requests + i * request_size, requests, request_size);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; i++) {
        struct connection *one = &connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
        int yes = 1;
        one->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(one->socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(one->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        epoll_ctl(turns, EPOLL_CTL_ADD, one->socket, &event);
    }
    double started = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++) ask(&connections[i], pipelined);
    while (to_come > 0) {
        struct epoll_event events[64];
        int ready = epoll_wait(turns, events, 64, 30000);
        if (ready <= 0) fail("nothing comes");
        for (int i = 0; i < ready; i++) {
            struct connection *one = events[i].data.ptr;
            ssize_t size = recv(one->socket, buffer, sizeof buffer, 0);
            if (size <= 0) fail("the connection has ended");
            long answers = taken(one, buffer, size);
            to_come -= answers;
            ask(one, answers);
        }
    }
    printf("%.9f %.9f\n", seconds(CLOCK_MONOTONIC) - started, seconds(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}

/* librdkafka 0.9 and above: assigned partitions, and groups. python/asked.py says what is asked. */
#include <rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *bootstrap, *mode, *pin = "default";
static double wait_seconds = 8;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void hex(const char *name, const void *data, size_t size) {
    const unsigned char *bytes = data;
    size_t i;
    printf("%s", name);
    if (data == NULL) {
        printf("null");
        return;
    }
    putchar('"');
    for (i = 0; i < size; i++)
        printf("%02x", bytes[i]);
    putchar('"');
}

static void quoted(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\')
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void told(const char *topic, const rd_kafka_message_t *message) {
    rd_kafka_timestamp_type_t kind;
    int64_t timestamp = rd_kafka_message_timestamp(message, &kind);
    printf("{\"topic\":\"%s\",\"p\":%d,\"o\":%lld", topic, message->partition,
           (long long)message->offset);
    hex(",\"k\":", message->key, message->key_len);
    hex(",\"v\":", message->payload, message->len);
    if (kind != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
        printf(",\"t\":%lld,\"tt\":\"%s\"", (long long)timestamp,
               kind == RD_KAFKA_TIMESTAMP_CREATE_TIME ? "CreateTime" : "LogAppendTime");
#if RD_KAFKA_VERSION >= 0x000b04ff
    {
        rd_kafka_headers_t *headers;
        const char *name, *separator = "";
        const void *value;
        size_t size, at;
        if (!rd_kafka_message_headers(message, &headers)) {
            printf(",\"h\":[");
            for (at = 0; !rd_kafka_header_get_all(headers, at, &name, &value, &size); at++) {
                printf("%s[", separator);
                quoted(name);
                hex(",", value, size);
                printf("]");
                separator = ",";
            }
            printf("]");
        }
    }
#endif
    printf("}\n");
}

static void set(rd_kafka_conf_t *settings, const char *name, const char *value) {
    char said[512];
    if (rd_kafka_conf_set(settings, name, value, said, sizeof(said)) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "%s\n", said);
        exit(2);
    }
}

static void read_topic(const char *topic, int partitions, int count, int number) {
    rd_kafka_conf_t *settings = rd_kafka_conf_new();
    rd_kafka_topic_conf_t *of_topics = rd_kafka_topic_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    rd_kafka_message_t *message;
    rd_kafka_t *consumer;
    char said[512], group[64];
    const char *end = "time";
    int seen = 0, p, grouped = !strcmp(mode, "group");
    double started = now(), complete = 0;

    snprintf(group, sizeof(group), "rd-%d-%d-%ld", getpid(), number, (long)time(NULL));
    set(settings, "bootstrap.servers", bootstrap);
    set(settings, "group.id", group);
    set(settings, "enable.auto.commit", grouped ? "true" : "false");
    set(settings, "fetch.message.max.bytes", "4194304");
    set(settings, "fetch.wait.max.ms", "100");
    /* From 1.2 on; the default is the other. */
    rd_kafka_conf_set(settings, "isolation.level", "read_uncommitted", said, sizeof(said));
    set(settings, "api.version.request", "true"); /* 0.9 does not without */
    if (strcmp(pin, "default")) {
        set(settings, "api.version.request", "false");
        set(settings, "broker.version.fallback", pin);
    }
    rd_kafka_topic_conf_set(of_topics, "auto.offset.reset", "earliest", said, sizeof(said));
    rd_kafka_conf_set_default_topic_conf(settings, of_topics);
    consumer = rd_kafka_new(RD_KAFKA_CONSUMER, settings, said, sizeof(said));
    if (consumer == NULL) {
        fprintf(stderr, "%s\n", said);
        exit(2);
    }
    rd_kafka_poll_set_consumer(consumer);
    if (grouped) {
        rd_kafka_topic_partition_list_add(list, topic, RD_KAFKA_PARTITION_UA);
        rd_kafka_subscribe(consumer, list);
    } else {
        for (p = 0; p < partitions; p++)
            rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
        rd_kafka_assign(consumer, list);
    }
    for (;;) {
        if (seen >= count && complete == 0)
            complete = now();
        if (complete ? now() - complete > 0.25 || seen >= 2 * count + 10
                     : now() - started > wait_seconds)
            break;
        message = rd_kafka_consumer_poll(consumer, 50);
        if (message == NULL)
            continue;
        if (!message->err) {
            told(topic, message);
            seen++;
        } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            fprintf(stderr, "%s: %s\n", topic, rd_kafka_message_errstr(message));
            end = rd_kafka_err2str(message->err);
        }
        rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(consumer);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(consumer);
    printf("{\"topic\":\"%s\",\"end\":", topic);
    quoted(seen >= count ? "count" : end);
    printf("}\n");
    fflush(stdout);
}

int main(int count, char **given) {
    int i;
    for (i = 1; i + 1 < count; i += 2) {
        if (!strcmp(given[i], "--bootstrap")) bootstrap = given[i + 1];
        if (!strcmp(given[i], "--mode")) mode = given[i + 1];
        if (!strcmp(given[i], "--pin")) pin = given[i + 1];
        if (!strcmp(given[i], "--wait")) wait_seconds = atof(given[i + 1]);
    }
    for (i = 1; i + 1 < count; i += 2) {
        char topic[256];
        int partitions, records;
        if (strcmp(given[i], "--topic")) continue;
        if (sscanf(given[i + 1], "%255[^:]:%d:%d", topic, &partitions, &records) != 3) return 2;
        alarm((unsigned)wait_seconds + 20); /* which kills, if closing hangs */
        read_topic(topic, partitions, records, i);
    }
    return 0;
}

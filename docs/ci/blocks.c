/*
 * Writes blocks into another host's memory, which checks them: `blocks server`, and `blocks client ADDRESS`.
 * Exit code 0 only if all of them came.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "7471"
#ifndef SIGNALLED
#define SIGNALLED 0 /* of each list the last work request alone is signalled; IBV_SEND_SIGNALED: all are */
#endif

enum { BYTES = 4096, LIST = 16, LISTS = 4, BLOCKS = LIST * LISTS, PATIENCE_MS = 10000 };

/* What the server accepts with. */
struct room {
    uint64_t address;
    uint32_t rkey;
};

static void fail(const char *what) {
    fprintf(stderr, "blocks: %s: %s\n", what, strerror(errno));
    exit(1);
}

static unsigned char byte_of(int block, int at) { return (unsigned char)(block * 7 + at); }

/* NULL, with errno, where nobody has this address. */
static struct rdma_cm_id *endpoint(const char *address) {
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = address ? 0 : RAI_PASSIVE }, *found;
    struct ibv_qp_init_attr attributes = {
        .cap = { .max_send_wr = BLOCKS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct rdma_cm_id *id;
    if (rdma_getaddrinfo(address, PORT, &hints, &found)) fail("the address");
    if (rdma_create_ep(&id, found, NULL, &attributes)) id = NULL;
    rdma_freeaddrinfo(found);
    return id;
}

/* Whether the work request `last` has completed. */
static int polled(struct ibv_cq *cq, uintptr_t last) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        if (wc.status) {
            fprintf(stderr, "blocks: work request %d: %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
            exit(1);
        }
        if (wc.wr_id == last) return 1;
    }
    return 0;
}

/* Waits for a completion, or for the end of the connection, which may be told of first. */
static void wait_for(struct rdma_cm_id *id, struct ibv_cq *cq, struct ibv_comp_channel *channel, uintptr_t last) {
    struct pollfd either[] = { { .fd = channel->fd, .events = POLLIN }, { .fd = id->channel->fd, .events = POLLIN } };
    while (!polled(cq, last)) {
        if (ibv_req_notify_cq(cq, 0)) fail("to be told of completions");
        if (polled(cq, last)) return;
        errno = ETIMEDOUT;
        if (poll(either, 2, PATIENCE_MS) <= 0) fail("waiting");
        if (either[0].revents) {
            if (ibv_get_cq_event(channel, &cq, &(void *){ 0 })) fail("an event");
            ibv_ack_cq_events(cq, 1);
        } else if (!polled(cq, last)) {
            errno = ECONNRESET;
            fail("waiting");
        } else return;
    }
}

static void serve(void) {
    struct rdma_cm_id *listener = endpoint(NULL), *id;
    unsigned char *blocks = calloc(BLOCKS, BYTES), verdict = 1;
    if (!listener || rdma_listen(listener, 1)) fail("to listen");
    if (rdma_get_request(listener, &id)) fail("a request");
    struct ibv_mr *mr = rdma_reg_write(id, blocks, BLOCKS * BYTES), *small = rdma_reg_msgs(id, &verdict, 1);
    if (!mr || !small) fail("to register memory");
    struct room room = { .address = (uintptr_t)blocks, .rkey = mr->rkey };
    struct rdma_conn_param parameters = { .private_data = &room, .private_data_len = sizeof room };
    if (rdma_post_recv(id, NULL, &verdict, 1, small)) fail("a RECV");
    if (rdma_accept(id, &parameters)) fail("to accept");
    wait_for(id, id->recv_cq, id->recv_cq_channel, 0);
    for (int block = 0; block < BLOCKS; block++)
        for (int at = 0; at < BYTES; at++) verdict &= blocks[block * BYTES + at] == byte_of(block, at);
    if (rdma_post_send(id, NULL, &verdict, 1, small, IBV_SEND_SIGNALED)) fail("a SEND");
    wait_for(id, id->send_cq, id->send_cq_channel, 0);
    rdma_disconnect(id);
    if (!verdict) exit(1);
}

static struct rdma_cm_id *connected(const char *address, unsigned char *verdict, struct ibv_mr **small) {
    struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
    /* Host and server may begin a moment later. */
    for (int time = 0; time < 100; time++, usleep(20000)) {
        struct rdma_cm_id *id = endpoint(address);
        if (!id && errno == EHOSTUNREACH) continue;
        if (!id) break;
        uint8_t exponent = 14; /* 4.096 us * 2^14: what is lost is sent again after 67 ms */
        if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1)) fail("the time-out");
        *small = rdma_reg_msgs(id, verdict, 1);
        if (!*small) fail("to register memory");
        if (rdma_post_recv(id, NULL, verdict, 1, *small)) fail("a RECV");
        if (!rdma_connect(id, &parameters)) return id;
        if (errno != ECONNREFUSED) break;
        rdma_dereg_mr(*small);
        rdma_destroy_ep(id);
    }
    fail("to connect");
    return NULL;
}

/* Posts a list of WRITEs with one call. */
static void write_list(struct rdma_cm_id *id, int first, unsigned char *blocks, struct ibv_mr *mr, struct room room) {
    struct ibv_send_wr list[LIST] = { 0 }, *bad;
    struct ibv_sge entries[LIST];
    for (int i = 0; i < LIST; i++) {
        int block = first + i;
        entries[i] = (struct ibv_sge){ (uintptr_t)(blocks + block * BYTES), BYTES, mr->lkey };
        list[i].wr_id = block;
        list[i].opcode = IBV_WR_RDMA_WRITE;
        list[i].sg_list = &entries[i];
        list[i].num_sge = 1;
        list[i].next = i + 1 < LIST ? &list[i + 1] : NULL;
        list[i].send_flags = i + 1 < LIST ? SIGNALLED : IBV_SEND_SIGNALED;
        list[i].wr.rdma.remote_addr = room.address + block * BYTES;
        list[i].wr.rdma.rkey = room.rkey;
    }
    if (ibv_post_send(id->qp, list, &bad)) fail("a list of WRITEs");
}

static void ask(const char *address) {
    unsigned char *blocks = malloc(BLOCKS * BYTES), verdict = 0;
    struct ibv_mr *small;
    struct rdma_cm_id *id = connected(address, &verdict, &small);
    struct room room;
    memcpy(&room, id->event->param.conn.private_data, sizeof room);
    struct ibv_mr *mr = rdma_reg_msgs(id, blocks, BLOCKS * BYTES);
    if (!mr) fail("to register memory");
    for (int block = 0; block < BLOCKS; block++)
        for (int at = 0; at < BYTES; at++) blocks[block * BYTES + at] = byte_of(block, at);
    for (int list = 0; list < LISTS; list++) {
        write_list(id, list * LIST, blocks, mr, room);
        wait_for(id, id->send_cq, id->send_cq_channel, (list + 1) * LIST - 1);
    }
    if (rdma_post_send(id, (void *)BLOCKS, NULL, 0, NULL, IBV_SEND_SIGNALED)) fail("a SEND");
    wait_for(id, id->send_cq, id->send_cq_channel, BLOCKS);
    wait_for(id, id->recv_cq, id->recv_cq_channel, 0);
    if (!verdict) fprintf(stderr, "blocks: the server has others\n");
    if (!verdict) exit(1);
    printf("%d blocks of %d bytes are there\n", BLOCKS, BYTES);
    rdma_disconnect(id);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "server")) serve();
    else if (argc == 3 && !strcmp(argv[1], "client")) ask(argv[2]);
    else return fprintf(stderr, "usage: blocks server | blocks client ADDRESS\n"), 2;
    return 0;
}

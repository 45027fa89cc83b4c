/* Makes the verbs calls of NCCL's network transport: loads libibverbs by dlopen(3) and its functions by
 * dlvsym(3), and sends a message as WRITEs, the last of them with immediate. The receiver READs from a QP that
 * is connected to itself, to flush the WRITEs, and then writes a word back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s:%d: %s: %m\n", role, __LINE__, #what); exit(1); } } while (0)
#define WRITES 16
#define EACH (64 << 10)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static const char *role = "both";
static void *library;

/* Looks up a function of the library by its symbol version. */
#define FUNCTION(type, name, arguments, version) \
    type (*own_##name) arguments = (type (*) arguments) dlvsym(library, #name, version); CHECK(own_##name)

struct side {
    uint32_t qpn, rkey;
    uint64_t addr;
    uint16_t lid;
    uint8_t is_roce;
    union ibv_gid gid;
};

static void wait_for(struct ibv_cq *cq, struct ibv_wc *wc) {
    int got;
    while ((got = ibv_poll_cq(cq, 1, wc)) == 0) {}
    CHECK(got == 1);
    if (wc->status != IBV_WC_SUCCESS) { fprintf(stderr, "%s: status %d\n", role, wc->status); exit(1); }
}

int main(void) {
    int there[2], back[2];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    role = child ? "sender" : "receiver";
    int hears = child ? back[0] : there[0], says = child ? there[1] : back[1];

    CHECK(library = dlopen("libibverbs.so.1", RTLD_NOW));
    FUNCTION(int, ibv_fork_init, (void), "IBVERBS_1.1");
    FUNCTION(struct ibv_device **, ibv_get_device_list, (int *), "IBVERBS_1.1");
    FUNCTION(void, ibv_free_device_list, (struct ibv_device **), "IBVERBS_1.1");
    FUNCTION(const char *, ibv_get_device_name, (struct ibv_device *), "IBVERBS_1.1");
    FUNCTION(struct ibv_context *, ibv_open_device, (struct ibv_device *), "IBVERBS_1.1");
    FUNCTION(int, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *), "IBVERBS_1.1");
    FUNCTION(int, ibv_query_port, (struct ibv_context *, uint8_t, struct ibv_port_attr *), "IBVERBS_1.1");
    FUNCTION(int, ibv_query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *), "IBVERBS_1.1");
    FUNCTION(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *), "IBVERBS_1.1");
    FUNCTION(struct ibv_mr *, ibv_reg_mr_iova2, (struct ibv_pd *, void *, size_t, uint64_t, unsigned), "IBVERBS_1.8");
    FUNCTION(struct ibv_cq *, ibv_create_cq, (struct ibv_context *, int, void *, struct ibv_comp_channel *, int), "IBVERBS_1.1");
    FUNCTION(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *), "IBVERBS_1.1");
    FUNCTION(int, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int), "IBVERBS_1.1");
    FUNCTION(int, ibv_destroy_qp, (struct ibv_qp *), "IBVERBS_1.1");
    FUNCTION(int, ibv_close_device, (struct ibv_context *), "IBVERBS_1.1");

    int count;
    CHECK(own_ibv_fork_init() == 0);
    struct ibv_device **list = own_ibv_get_device_list(&count);
    CHECK(list && count == 1 && strcmp(own_ibv_get_device_name(list[0]), "doorbell0") == 0);
    struct ibv_context *context = own_ibv_open_device(list[0]);
    CHECK(context);
    own_ibv_free_device_list(list);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    memset(&port, 0, sizeof port);
    CHECK(own_ibv_query_device(context, &device) == 0 && device.max_qp > 2);
    CHECK(own_ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);

    struct ibv_pd *pd = own_ibv_alloc_pd(context);
    struct ibv_cq *cq = own_ibv_create_cq(context, 2 * WRITES, NULL, NULL, 0);
    CHECK(pd && cq);
    static unsigned char room[WRITES * EACH + 8];
    struct ibv_mr *mr = own_ibv_reg_mr_iova2(pd, room, sizeof room, (uint64_t)room, ACCESS | IBV_ACCESS_RELAXED_ORDERING);
    CHECK(mr);

    struct side own = { .rkey = mr->rkey, .addr = (uint64_t)room, .lid = port.lid, .is_roce = port.link_layer == IBV_LINK_LAYER_ETHERNET }, peer;
    CHECK(own_ibv_query_gid(context, 1, 0, &own.gid) == 0);
    /* The first QP is connected to the other side, the second to itself. */
    struct ibv_qp *qps[2];
    for (int at = 0; at < 2; at++) {
        struct ibv_qp_init_attr how = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
            .cap = { .max_send_wr = 2 * WRITES, .max_recv_wr = WRITES, .max_send_sge = 1, .max_recv_sge = 1 } };
        CHECK(qps[at] = own_ibv_create_qp(pd, &how));
        struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };
        CHECK(own_ibv_modify_qp(qps[at], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    }
    own.qpn = qps[0]->qp_num;
    struct ibv_recv_wr recv = { .wr_id = 7 }, *bad_recv;
    if (!child) CHECK(ibv_post_recv(qps[0], &recv, &bad_recv) == 0);
    CHECK(write(says, &own, sizeof own) == sizeof own && read(hears, &peer, sizeof peer) == sizeof peer);
    for (int at = 0; at < 2; at++) {
        struct side *to = at ? &own : &peer;
        struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = at ? qps[1]->qp_num : peer.qpn,
            .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .port_num = 1, .dlid = to->lid, .is_global = to->is_roce } };
        rtr.ah_attr.grh.dgid = to->gid;
        rtr.ah_attr.grh.hop_limit = 255;
        CHECK(own_ibv_modify_qp(qps[at], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
        struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
        CHECK(own_ibv_modify_qp(qps[at], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    }
    char ready = 1;
    CHECK(write(says, &ready, 1) == 1 && read(hears, &ready, 1) == 1);

    struct ibv_wc wc;
    struct ibv_send_wr *bad;
    volatile uint64_t *word = (volatile uint64_t *)(room + WRITES * EACH);
    if (child) {
        struct ibv_send_wr wrs[WRITES];
        struct ibv_sge sges[WRITES];
        memset(wrs, 0, sizeof wrs);
        for (int at = 0; at < WRITES; at++) {
            memset(room + at * EACH, at + 1, EACH);
            sges[at] = (struct ibv_sge) { own.addr + at * EACH, EACH, mr->lkey };
            wrs[at] = (struct ibv_send_wr) { .wr_id = at, .next = at + 1 < WRITES ? &wrs[at + 1] : NULL, .sg_list = &sges[at], .num_sge = 1,
                .opcode = at + 1 < WRITES ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 77,
                .send_flags = at + 1 < WRITES ? 0 : IBV_SEND_SIGNALED };
            wrs[at].wr.rdma.remote_addr = peer.addr + at * EACH;
            wrs[at].wr.rdma.rkey = peer.rkey;
        }
        CHECK(ibv_post_send(qps[0], wrs, &bad) == 0);
        wait_for(cq, &wc);
        CHECK(wc.wr_id == WRITES - 1);
        while (*word != 0x77) {}
        printf("%d bytes have come\n", WRITES * EACH);
    } else {
        wait_for(cq, &wc);
        CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 77 && wc.wr_id == 7);
        struct ibv_sge sge = { own.addr + WRITES * EACH, 4, mr->lkey };
        struct ibv_send_wr flush = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };
        flush.wr.rdma.remote_addr = own.addr;
        flush.wr.rdma.rkey = mr->rkey;
        CHECK(ibv_post_send(qps[1], &flush, &bad) == 0);
        wait_for(cq, &wc);
        CHECK(wc.opcode == IBV_WC_RDMA_READ);
        for (int at = 0; at < WRITES * EACH; at++) CHECK(room[at] == at / EACH + 1);
        *word = 0x77;
        sge.length = 8;
        struct ibv_send_wr answer = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
        answer.wr.rdma.remote_addr = peer.addr + WRITES * EACH;
        answer.wr.rdma.rkey = peer.rkey;
        CHECK(ibv_post_send(qps[0], &answer, &bad) == 0);
        wait_for(cq, &wc);
    }
    CHECK(write(says, &ready, 1) == 1 && read(hears, &ready, 1) == 1);
    int status = 0;
    for (int at = 0; at < 2; at++) CHECK(own_ibv_destroy_qp(qps[at]) == 0);
    CHECK(own_ibv_close_device(context) == 0);
    if (child) CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

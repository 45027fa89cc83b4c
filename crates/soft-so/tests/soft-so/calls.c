/* Calls whose answers drivers and the kernel agree on. Prints each answer that differs. With an argument, the
   device is the kernel's Soft-RoCE, whose answers differ where LACKS or UNLESS name the reason. */
#include <infiniband/verbs.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define EXPECT(what) (answers++, (what) ? 0 : (failures++, fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno)))
/* Soft-RoCE answers otherwise, for this reason. */
#define UNLESS(reason, what) (is_soft_roce ? (differences++, EXPECT(!(what)), (void)printf("known    %s\n", reason)) : (void)EXPECT(what))
/* Whether the device is Soft-RoCE, which lacks the call: it must refuse the call by this errno. */
#define LACKS(name, expected, object) (is_soft_roce && (printf("lacks    %s\n", name), EXPECT(!(object) && errno == expected), 1))
#define REFUSED(expected, what) (errno = 0, EXPECT(!(what) && errno == (expected)))
#define NEED(what) ((what) ? 0 : (fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno), exit(1)))

static int is_soft_roce, answers, differences, failures;
static struct ibv_port_attr port;
static union ibv_gid gid;

struct end { struct ibv_context *context; struct ibv_pd *pd; struct ibv_cq *cq; };

static struct end open_end(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct end end = { list ? ibv_open_device(list[0]) : NULL };
    NEED(end.context);
    end.pd = ibv_alloc_pd(end.context);
    end.cq = ibv_create_cq(end.context, 64, NULL, NULL, 0);
    NEED(end.pd && end.cq);
    NEED(!ibv_query_port(end.context, 1, &port) && !ibv_query_gid(end.context, 1, is_soft_roce, &gid));
    return end;
}

static int is_roce(void) { return port.link_layer == IBV_LINK_LAYER_ETHERNET; }

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, struct ibv_srq *srq) {
    struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
        .cap = { 8, srq ? 0 : 8, 1, srq ? 0 : 1, 0 } };
    return ibv_create_qp(pd, &attr);
}

static struct ibv_ah_attr path(int has_grh) {
    struct ibv_ah_attr to = { .dlid = port.lid, .port_num = 1, .sl = 5 };
    if (has_grh) {
        to.is_global = 1;
        to.grh = (struct ibv_global_route){ .dgid = gid, .hop_limit = 7,
            .sgid_index = is_soft_roce };
    }
    return to;
}

static int init(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL, .qkey = 17 };
    int own = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

static int rtr(struct ibv_qp *qp, uint32_t peer, struct ibv_ah_attr to, uint8_t timer) {
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
        .max_dest_rd_atomic = 1, .min_rnr_timer = timer, .ah_attr = to };
    int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (qp->qp_type == IBV_QPT_UD ? 0 : mask));
}

static int rts(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
        .max_rd_atomic = 1 };
    int mask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_UD ? 0 : mask));
}

static struct ibv_qp_attr known(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    NEED(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV, &init));
    return attr;
}

static void connected(struct ibv_qp *qp, uint32_t peer) {
    NEED(!init(qp) && !rtr(qp, peer, path(is_roce()), 12) && !rts(qp));
}

static struct ibv_wc next(struct ibv_cq *cq) {
    struct ibv_wc wc;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)));
    NEED(n == 1);
    return wc;
}

static int send_from(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_mr *mr, struct ibv_ah *ah) {
    struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };
    struct ibv_send_wr *bad;
    if (ah) {
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = qp->qp_num;
        wr.wr.ud.remote_qkey = 17;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
        wr.wr.rdma.rkey = mr->rkey;
    }
    return ibv_post_send(qp, &wr, &bad);
}

static int recv_to(struct ibv_qp *qp, struct ibv_mr *mr) {
    struct ibv_sge sge = { (uintptr_t)mr->addr + 1024, 64, mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

static void states(struct end *end) {
    struct ibv_qp *qp = make(end->pd, end->cq, IBV_QPT_RC, NULL);
    NEED(qp && !init(qp));
    if (is_roce()) {
        EXPECT(rtr(qp, qp->qp_num, path(0), 12) == EINVAL && known(qp).qp_state == IBV_QPS_INIT);
    }
    struct ibv_ah_attr beyond = path(1);
    beyond.grh.sgid_index = port.gid_tbl_len;
    EXPECT(rtr(qp, qp->qp_num, beyond, 12) == EINVAL && known(qp).qp_state == IBV_QPS_INIT);
    EXPECT(!rtr(qp, qp->qp_num, path(1), 32 + 12) && known(qp).qp_state == IBV_QPS_RTR);
    UNLESS("ibv_query_qp: no service level", known(qp).ah_attr.sl == 5);
    EXPECT(!ibv_qp_to_qp_ex(qp));
    struct ibv_qp_init_attr_ex attr = { .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = end->pd, .cap = { 1, 1, 1, 1, 0 } };
    struct ibv_qp *without = ibv_create_qp_ex(end->context, &attr);
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    struct ibv_qp *with = ibv_create_qp_ex(end->context, &attr);
    NEED(with && without);
    EXPECT(!ibv_qp_to_qp_ex(without) && ibv_qp_to_qp_ex(with) == (struct ibv_qp_ex *)with);
    EXPECT(!ibv_destroy_qp(with) && !ibv_destroy_qp(without) && !ibv_destroy_qp(qp));
}

static void contexts(struct end *a, struct end *b) {
    struct ibv_srq_init_attr of_srq = { .attr = { 4, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(a->pd, &of_srq);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(a->context);
    NEED(srq && channel);
    /* The kernel looks handles up in the calling context, where they may be other objects or none. */
    if (!is_soft_roce) {
        REFUSED(EINVAL, make(a->pd, b->cq, IBV_QPT_RC, NULL));
        REFUSED(EINVAL, make(b->pd, b->cq, IBV_QPT_RC, srq));
    }
    struct ibv_qp_init_attr_ex of_qp = { .send_cq = a->cq, .recv_cq = a->cq, .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = a->pd,
        .cap = { 1, 1, 1, 1, 0 } };
    if (!is_soft_roce)
        REFUSED(EINVAL, ibv_create_qp_ex(b->context, &of_qp));
    REFUSED(EBADF, ibv_create_cq(b->context, 4, NULL, channel, 0));
    char *memory = calloc(1, 64);
    struct ibv_mr *mr = ibv_reg_mr(a->pd, memory, 64, ALL);
    NEED(mr);
    if (!LACKS("ibv_rereg_mr", EOPNOTSUPP, !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, 0)))
        EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, 0) && errno == EINVAL);
    EXPECT(!ibv_dereg_mr(mr) && !ibv_destroy_srq(srq) && !ibv_destroy_comp_channel(channel));
}

static void xrc_domains(struct end *a, struct end *b) {
    struct ibv_xrcd_init_attr of_xrcd = { .comp_mask = 3, .fd = -1, .oflags = O_CREAT };
    struct ibv_xrcd *xrcd = ibv_open_xrcd(a->context, &of_xrcd);
    if (LACKS("ibv_open_xrcd", EOPNOTSUPP, xrcd))
        return;
    NEED(xrcd);
    struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
        .xrcd = xrcd };
    REFUSED(EINVAL, ibv_create_qp_ex(b->context, &target));
    struct ibv_srq_init_attr_ex of_xrc = { .attr = { 4, 1, 0 }, .comp_mask = 15, .srq_type = IBV_SRQT_XRC,
        .pd = a->pd, .xrcd = xrcd, .cq = b->cq };
    REFUSED(EINVAL, ibv_create_srq_ex(a->context, &of_xrc));
    of_xrc.cq = a->cq;
    REFUSED(EINVAL, ibv_create_srq_ex(b->context, &of_xrc));
    EXPECT(!ibv_close_xrcd(xrcd));
}

static void device_memory(struct end *a, struct end *b) {
    struct ibv_alloc_dm_attr attr = { .length = 4096 };
    struct ibv_dm *dm = ibv_alloc_dm(a->context, &attr);
    if (LACKS("ibv_alloc_dm", EOPNOTSUPP, dm))
        return;
    NEED(dm);
    REFUSED(EINVAL, ibv_reg_dm_mr(a->pd, dm, 0, 64, ALL));
    REFUSED(EINVAL, ibv_reg_dm_mr(b->pd, dm, 0, 64, ALL | IBV_ACCESS_ZERO_BASED));
    struct ibv_mr *mr = ibv_reg_dm_mr(a->pd, dm, 64, 64, ALL | IBV_ACCESS_ZERO_BASED);
    NEED(mr);
    EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && errno == EINVAL);
    uint64_t word = 7, read = 0;
    EXPECT(ibv_free_dm(dm) == EBUSY);
    EXPECT(!ibv_memcpy_to_dm(dm, 64, &word, 8) && !ibv_memcpy_from_dm(&read, dm, 64, 8) && read == 7);
    EXPECT(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
}

static void domains(struct end *a, struct end *b) {
    struct ibv_td_init_attr none = { 0 }, unknown = { 1 };
    REFUSED(EOPNOTSUPP, ibv_alloc_td(a->context, &unknown));
    if (LACKS("ibv_alloc_td", EOPNOTSUPP, ibv_alloc_td(a->context, &none)))
        return;
    struct ibv_td *td = ibv_alloc_td(a->context, &none), *foreign = ibv_alloc_td(b->context, &none);
    NEED(td && foreign);
    struct ibv_parent_domain_init_attr attr = { .td = td };
    REFUSED(EINVAL, ibv_alloc_parent_domain(a->context, &attr));
    attr.pd = b->pd;
    REFUSED(EINVAL, ibv_alloc_parent_domain(a->context, &attr));
    attr = (struct ibv_parent_domain_init_attr){ .pd = a->pd, .td = foreign };
    REFUSED(EINVAL, ibv_alloc_parent_domain(a->context, &attr));
    EXPECT(!ibv_dealloc_td(foreign));
    attr.td = td;
    attr.comp_mask = 4;
    REFUSED(EOPNOTSUPP, ibv_alloc_parent_domain(a->context, &attr));
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    struct ibv_pd *parent = ibv_alloc_parent_domain(a->context, &attr);
    NEED(parent);
    struct ibv_cq_init_attr_ex of_cq = { .cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
        .parent_domain = a->pd };
    REFUSED(EINVAL, ibv_create_cq_ex(a->context, &of_cq));
    of_cq.parent_domain = parent;
    struct ibv_cq_ex *cq = ibv_create_cq_ex(a->context, &of_cq);
    NEED(cq);
    EXPECT(ibv_dealloc_pd(parent) == EBUSY && ibv_dealloc_td(td) == EBUSY);
    /* The parent domain and the domain in it serve each other's objects. */
    char *memory = calloc(1, 4096);
    struct ibv_qp *qp = make(parent, ibv_cq_ex_to_cq(cq), IBV_QPT_RC, NULL);
    struct ibv_mr *mr = ibv_reg_mr(a->pd, memory, 4096, ALL), *own = ibv_reg_mr(parent, memory, 4096, ALL);
    NEED(qp && mr && own);
    connected(qp, qp->qp_num);
    EXPECT(!send_from(qp, IBV_WR_RDMA_WRITE, mr, NULL));
    EXPECT(next(ibv_cq_ex_to_cq(cq)).status == IBV_WC_SUCCESS);
    EXPECT(!send_from(qp, IBV_WR_RDMA_WRITE, own, NULL));
    EXPECT(next(ibv_cq_ex_to_cq(cq)).status == IBV_WC_SUCCESS);
    EXPECT(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_dereg_mr(own));
    EXPECT(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) && !ibv_dealloc_pd(parent) && !ibv_dealloc_td(td));
}

static void advice(struct end *a) {
    struct ibv_pd *other = ibv_alloc_pd(a->context);
    char *memory = calloc(1, 4096);
    if (LACKS("IBV_ACCESS_ON_DEMAND", EINVAL, ibv_reg_mr(a->pd, memory, 4096, ALL | IBV_ACCESS_ON_DEMAND))) {
        struct ibv_sge none = { 0 };
        EXPECT(ibv_advise_mr(a->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &none, 1) == EOPNOTSUPP);
        return;
    }
    struct ibv_mr *mr = ibv_reg_mr(a->pd, memory, 4096, ALL | IBV_ACCESS_ON_DEMAND);
    struct ibv_mr *read_only = ibv_reg_mr(a->pd, memory, 4096, IBV_ACCESS_ON_DEMAND);
    NEED(other && mr && read_only);
    enum ibv_advise_mr_advice to_read = IBV_ADVISE_MR_ADVICE_PREFETCH, to_write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    struct ibv_sge sge = { (uintptr_t)memory, 4096, mr->lkey };
    EXPECT(!ibv_advise_mr(a->pd, to_write, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
    EXPECT(ibv_advise_mr(other, to_read, 0, &sge, 1) == EPERM);
    EXPECT(ibv_advise_mr(a->pd, to_read, 0, &sge, 0) == EINVAL);
    sge.length++;
    EXPECT(ibv_advise_mr(a->pd, to_read, 0, &sge, 1) == EFAULT);
    sge = (struct ibv_sge){ (uintptr_t)memory, 4096, read_only->lkey };
    EXPECT(!ibv_advise_mr(a->pd, to_read, 0, &sge, 1));
    EXPECT(ibv_advise_mr(a->pd, to_write, 0, &sge, 1) == EPERM);
    sge.lkey = 0xdead00;
    EXPECT(ibv_advise_mr(a->pd, to_read, 0, &sge, 1) == ENOENT);
    EXPECT(!ibv_dereg_mr(mr) && !ibv_dereg_mr(read_only) && !ibv_dealloc_pd(other));
}

static void clocks(struct end *a) {
    struct ibv_values_ex before = { IBV_VALUES_MASK_RAW_CLOCK }, after = before, none = { 0 };
    if (is_soft_roce) {
        struct ibv_modify_cq_attr moderation = { IBV_CQ_ATTR_MODERATE, { 1, 1 } };
        EXPECT(ibv_query_rt_values_ex(a->context, &before) == EOPNOTSUPP);
        EXPECT(ibv_modify_cq(a->cq, &moderation) == EOPNOTSUPP);
        return;
    }
    EXPECT(!ibv_query_rt_values_ex(a->context, &before) && !ibv_query_rt_values_ex(a->context, &after));
    EXPECT(before.comp_mask == IBV_VALUES_MASK_RAW_CLOCK && before.raw_clock.tv_sec == 0);
    EXPECT(before.raw_clock.tv_nsec && after.raw_clock.tv_nsec >= before.raw_clock.tv_nsec);
    EXPECT(!ibv_query_rt_values_ex(a->context, &none) && !none.comp_mask);
    struct ibv_device_attr_ex about;
    NEED(!ibv_query_device_ex(a->context, NULL, &about));
    struct ibv_modify_cq_attr change = { IBV_CQ_ATTR_MODERATE,
        { about.cq_mod_caps.max_cq_count, about.cq_mod_caps.max_cq_period } };
    EXPECT(change.moderate.cq_count && change.moderate.cq_period && !ibv_modify_cq(a->cq, &change));
    change.moderate.cq_period++;
    EXPECT(ibv_modify_cq(a->cq, &change) == EINVAL);
    change.attr_mask = 0;
    EXPECT(ibv_modify_cq(a->cq, &change) == EINVAL);
    change.attr_mask = 2;
    EXPECT(ibv_modify_cq(a->cq, &change) == EOPNOTSUPP);
}

/* On Ethernet each message has a global route header, and no service level. */
static void completions(struct end *a) {
    char *memory = calloc(1, 4096);
    struct ibv_mr *mr = ibv_reg_mr(a->pd, memory, 4096, ALL);
    struct ibv_qp *rc = make(a->pd, a->cq, IBV_QPT_RC, NULL), *ud = make(a->pd, a->cq, IBV_QPT_UD, NULL);
    struct ibv_cq *to = ibv_create_cq(a->context, 8, NULL, NULL, 0);
    struct ibv_qp *receiver = make(a->pd, to, IBV_QPT_RC, NULL);
    NEED(mr && rc && ud && receiver);
    connected(rc, receiver->qp_num);
    connected(receiver, rc->qp_num);
    enum ibv_wr_opcode sends[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM };
    for (int i = 0; i < 3; i++) {
        EXPECT(!recv_to(receiver, mr) && !send_from(rc, sends[i], mr, NULL));
        struct ibv_wc wc = next(to);
        EXPECT(!wc.status && !!(wc.wc_flags & IBV_WC_GRH) == is_roce());
        EXPECT(!!(wc.wc_flags & IBV_WC_WITH_IMM) == (i > 0));
        EXPECT(!next(a->cq).status);
    }
    NEED(!init(ud) && !rtr(ud, 0, path(1), 0) && !rts(ud));
    for (int has_grh = is_roce(); has_grh < 2; has_grh++) {
        struct ibv_ah_attr way = path(has_grh);
        struct ibv_ah *ah = ibv_create_ah(a->pd, &way);
        EXPECT(ah && !recv_to(ud, mr) && !send_from(ud, IBV_WR_SEND, mr, ah));
        for (int i = 0; i < 2; i++) {
            struct ibv_wc wc = next(a->cq);
            if (wc.opcode != IBV_WC_RECV) continue;
            EXPECT(!wc.status && !!(wc.wc_flags & IBV_WC_GRH) == has_grh && wc.sl == (is_roce() ? 0 : 5));
            struct ibv_ah_attr back;
            EXPECT(!ibv_init_ah_from_wc(a->context, 1, &wc, (void *)(memory + 1024), &back));
            EXPECT(back.sl == wc.sl && back.is_global == has_grh);
        }
        EXPECT(!ibv_destroy_ah(ah));
    }
    EXPECT(!ibv_destroy_qp(rc) && !ibv_destroy_qp(receiver) && !ibv_destroy_qp(ud) && !ibv_dereg_mr(mr));
    EXPECT(!ibv_destroy_cq(to));
}

int main(int count, char **arguments) {
    (void)arguments;
    is_soft_roce = count > 1;
    alarm(60);
    struct end a = open_end(), b = open_end();
    states(&a);
    contexts(&a, &b);
    xrc_domains(&a, &b);
    device_memory(&a, &b);
    domains(&a, &b);
    advice(&a);
    clocks(&a);
    completions(&a);
    EXPECT(!ibv_destroy_cq(a.cq) && !ibv_dealloc_pd(a.pd) && !ibv_close_device(a.context));
    printf("calls: %d answered, %d known differences, %d failures\n", answers, differences, failures);
    return failures != 0;
}

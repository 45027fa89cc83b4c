/* Calls that are refused, in one of several cases. The first argument names the case. The case soft-roce
   compares the answers with the kernel's Soft-RoCE. */
#include <infiniband/verbs.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define NEED(what) ((what) ? 0 : (fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno), exit(1)))
/* The call must fail, and by no other errno than this one. */
#define NO(expected, failed) (errno = 0, refused(__LINE__, #failed, expected, 0, failed))
/* As NO, but Soft-RoCE answers otherwise: by another errno, or with success (0) if it does not check the value. */
#define NO_BUT(expected, soft_roce, failed) (errno = 0, refused(__LINE__, #failed, expected, 1 + (soft_roce), failed))

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_device_attr device;
static struct ibv_port_attr port;
static union ibv_gid gid;
static char memory[8192];
static struct ibv_mr *mr;
static int is_soft_roce, answers, differences, failures;

/* Compares the answer with `expected`. `known` is 1 more than the answer of Soft-RoCE if it differs, else 0. */
static void refused(int line, const char *call, int expected, int known, int result) {
    /* Calls that create an object tell the error in errno, and the others return it. */
    int answer = result == 1 ? errno : result, wanted = is_soft_roce && known ? known - 1 : expected;
    answers++;
    differences += is_soft_roce && known;
    if (answer == wanted)
        return;
    fprintf(stderr, "line %d: %s: answer %d, expected %d\n", line, call, answer, wanted);
    failures++;
    if (!is_soft_roce)
        exit(1);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    NEED(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
    return attr.qp_state;
}

static void open_device(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    context = list ? ibv_open_device(list[0]) : NULL;
    NEED(context && !ibv_query_device(context, &device) && !ibv_query_port(context, 1, &port));
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, memory, sizeof memory, ALL);
    NEED(pd && cq && mr && !ibv_query_gid(context, 1, is_soft_roce, &gid));
}

static struct ibv_qp_init_attr usual(void) {
    return (struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
}

static struct ibv_qp *make(struct ibv_qp_init_attr attr) { return ibv_create_qp(pd, &attr); }

#define MAKE(field, value) ({ struct ibv_qp_init_attr a_ = usual(); a_.field = value; ibv_create_qp(pd, &a_); })

static struct ibv_qp_attr init_attr(void) {
    return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
}

static const int INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

static struct ibv_qp_attr rtr_attr(uint32_t peer) {
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = gid;
        /* GID 0 of Soft-RoCE has no address that the interface could reach. */
        attr.ah_attr.grh.sgid_index = is_soft_roce;
    }
    return attr;
}

static const int RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

static struct ibv_qp_attr rts_attr(void) {
    return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
}

static const int RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC;

/* A refused call leaves the state of the QP as it was. */
#define MODIFY_BY(qp, attr, mask) ({ struct ibv_qp *qp_ = qp; enum ibv_qp_state before_ = state_of(qp_); \
    int e_ = ibv_modify_qp(qp_, attr, mask); NEED(!e_ || state_of(qp_) == before_); e_; })

static int modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask) { return MODIFY_BY(qp, &attr, mask); }

#define MODIFY(qp, from, mask, field, value) ({ struct ibv_qp_attr a_ = from; a_.field = value; MODIFY_BY(qp, &a_, mask); })

static struct ibv_qp *initialized(void) {
    struct ibv_qp *qp = make(usual());
    NEED(qp && !modify(qp, init_attr(), INIT));
    return qp;
}

/* A QP that is connected to itself. */
static struct ibv_qp *connected(void) {
    struct ibv_qp *qp = make(usual());
    NEED(qp && !modify(qp, init_attr(), INIT) && !modify(qp, rtr_attr(qp->qp_num), RTR) && !modify(qp, rts_attr(), RTS));
    return qp;
}

static int send(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int flags, uint32_t len) {
    struct ibv_sge sge = { (uintptr_t)memory, len, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags }, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
    wr.wr.rdma.rkey = mr->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)memory + 4096;
        wr.wr.atomic.rkey = mr->rkey;
    }
    return ibv_post_send(qp, &wr, &bad);
}

static int recv_one(struct ibv_qp *qp) {
    struct ibv_recv_wr wr = { 0 }, *bad;
    return ibv_post_recv(qp, &wr, &bad);
}

static int poll_one(void) {
    struct ibv_wc wc;
    int polled;
    while (!(polled = ibv_poll_cq(cq, 1, &wc)))
        ;
    return polled == 1 && wc.status == IBV_WC_SUCCESS;
}

/* One call for each line that the test expects. */
static void twenty(void) {
    NO(EINVAL, !MAKE(cap.max_send_wr, device.max_qp_wr + 1));
    NO(EINVAL, !MAKE(cap.max_recv_wr, device.max_qp_wr + 1));
    NO(EINVAL, !MAKE(cap.max_send_sge, device.max_sge + 1));
    NO(EINVAL, !MAKE(cap.max_inline_data, 1 << 20));
    if (!is_soft_roce) /* Its driver reads the CQ before it asks the kernel. */
        NO(EINVAL, !MAKE(recv_cq, NULL));
    NO(EINVAL, !ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0));
    NO(EINVAL, !ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE));
    NO(EFAULT, !ibv_reg_mr(pd, (void *)4096, 4096, ALL));
    struct ibv_srq_init_attr none = { .attr = { .max_wr = 0, .max_sge = 1 } };
    NO(EINVAL, !ibv_create_srq(pd, &none));
    struct ibv_qp *qp = make(usual());
    NO(EINVAL, MODIFY(qp, init_attr(), INIT, port_num, 0));
    NO_BUT(EINVAL, 0, MODIFY(make(usual()), init_attr(), INIT, pkey_index, 500));
    NO(EINVAL, modify(qp, init_attr(), INIT & ~IBV_QP_ACCESS_FLAGS));
    NO(EINVAL, modify(qp, rts_attr(), RTS));
    NEED(!modify(qp, init_attr(), INIT));
    NO_BUT(EINVAL, 0, MODIFY(initialized(), rtr_attr(qp->qp_num), RTR, path_mtu, 0));
    NO(EINVAL, MODIFY(initialized(), rtr_attr(qp->qp_num), RTR, path_mtu, 6));
    NO_BUT(EINVAL, 0, MODIFY(initialized(), rtr_attr(qp->qp_num), RTR, max_dest_rd_atomic, 200));
    NO(EINVAL, MODIFY(qp, rtr_attr(qp->qp_num), RTR, ah_attr.port_num, 7));
    NO(EINVAL, modify(qp, rtr_attr(qp->qp_num), RTR | IBV_QP_TIMEOUT));
    struct ibv_qp *to = connected();
    NO(EINVAL, send(to, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, 2000));
    NO(EINVAL, send(to, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4));
    NO_BUT(EINVAL, 0, send(to, IBV_WR_RDMA_READ, IBV_SEND_INLINE, 8));
    NO(EINVAL, send(qp, IBV_WR_SEND, 0, 8));
    NO(EINVAL, recv_one(make(usual())));
}

/* A connected QP for ibv_wr_start(3). */
static struct ibv_qp_ex *extended(void) {
    struct ibv_qp_init_attr_ex attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 },
        .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
    NEED(qp && !modify(qp, init_attr(), INIT) && !modify(qp, rtr_attr(qp->qp_num), RTR) && !modify(qp, rts_attr(), RTS));
    return ibv_qp_to_qp_ex(qp);
}

/* Posts a list of WRITEs, each with this number of SGEs. */
static int write_list(struct ibv_qp_ex *qp, int wrs, int sges) {
    struct ibv_sge sge[2] = { { (uintptr_t)memory, 8, mr->lkey }, { (uintptr_t)memory, 8, mr->lkey } };
    ibv_wr_start(qp);
    for (int i = 0; i < wrs; i++) {
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 4096);
        ibv_wr_set_sge_list(qp, sges, sge);
    }
    return ibv_wr_complete(qp);
}

/* One call for each line that the test expects. */
static void more(void) {
    struct ibv_qp *qp = make(usual());
    NO(EINVAL, modify(qp, init_attr(), INIT & ~IBV_QP_STATE));
    NEED(!modify(qp, init_attr(), INIT));
    /* `modify` would be the first call site again. */
    NO(EINVAL, MODIFY(qp, rtr_attr(qp->qp_num), RTR & ~IBV_QP_STATE, path_mtu, IBV_MTU_1024));
    NO(EINVAL, MODIFY(qp, rtr_attr(qp->qp_num), RTR | IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_RTS));
    struct ibv_qp_init_attr attr = usual();
    attr.cap = (struct ibv_qp_cap){ 0, 0, 1, 1, 0 };
    struct ibv_qp *none = make(attr);
    NEED(none && !modify(none, init_attr(), INIT) && !modify(none, rtr_attr(none->qp_num), RTR) && !modify(none, rts_attr(), RTS));
    NO(ENOMEM, send(none, IBV_WR_RDMA_WRITE, 0, 8));
    NO(ENOMEM, recv_one(none));
    struct ibv_qp_ex *to = extended();
    /* Soft-RoCE takes 7 requests where it reports 4. */
    NO_BUT(ENOMEM, ENOSPC, write_list(to, is_soft_roce ? 8 : 5, 1));
    NO_BUT(EINVAL, ENOSPC, write_list(to, 1, 2));
    volatile int variable = IBV_ACCESS_REMOTE_WRITE;
    NO(EINVAL, !ibv_reg_mr(pd, memory, 4096, variable));
    struct ibv_wc wc = { 0 };
    NO(EINVAL, !ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)memory, 2));
    struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
        .oflags = O_CREAT };
    NO(EINVAL, ibv_attach_mcast(qp, &gid, 0xc001));
    NEED(!write_list(to, 3, 1));
    NO_BUT(ENOMEM, 0, write_list(to, 3, 1));
    if (is_soft_roce) /* It lacks XRC. */
        return;
    /* For a usual SRQ, verbs.h calls ibv_create_srq(3). */
    struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 0, .max_sge = 1 }, .pd = pd, .cq = cq,
        .srq_type = IBV_SRQT_XRC, .xrcd = ibv_open_xrcd(context, &domain), .comp_mask = IBV_SRQ_INIT_ATTR_PD
        | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
    NEED(srq.xrcd);
    NO(EINVAL, !ibv_create_srq_ex(context, &srq));
    struct ibv_qp_init_attr_ex xrc = { .send_cq = cq, .qp_type = IBV_QPT_XRC_SEND, .cap = { 4, 0, 1, 0, 0 }, .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD };
    NO(EINVAL, modify(ibv_create_qp_ex(context, &xrc), init_attr(), INIT & ~IBV_QP_PORT));
}

/* Posts lists until the queue has no room, and again after completions. */
static void lists(void) {
    struct ibv_qp_ex *qp = extended();
    for (int posted = 0; posted < 30;) {
        int failed = write_list(qp, 3, 1);
        NEED(!failed || failed == ENOMEM);
        posted += failed ? 0 : 3;
        for (int i = 0; failed && i < 3; i++)
            NEED(poll_one());
    }
}

/* One call site: one line, and a count at exit. */
static void again(void) {
    struct ibv_qp *qp = make(usual());
    for (int i = 0; i < 7; i++)
        NO(EINVAL, recv_one(qp));
}

/* Calls that the program repeats with smaller values. */
static void smaller(void) {
    struct ibv_qp_init_attr attr = usual();
    struct ibv_qp *qp = NULL;
    for (attr.cap.max_inline_data = 1 << 20; !(qp = ibv_create_qp(pd, &attr)); attr.cap.max_inline_data /= 2)
        NEED(attr.cap.max_inline_data > 1);
    if (!ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0))
        NEED(ibv_create_cq(context, device.max_cqe, NULL, NULL, 0));
    if (!ibv_reg_mr(pd, memory, sizeof memory, ALL & ~IBV_ACCESS_LOCAL_WRITE))
        NEED(ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_READ));
}

/* Increases a value until a call fails, and then searches below, at another call site. */
static void larger(void) {
    struct ibv_qp_init_attr attr = usual();
    struct ibv_qp *qp;
    uint32_t len = 2;
    for (; attr.cap.max_inline_data = len, (qp = ibv_create_qp(pd, &attr)); len *= 2)
        NEED(!ibv_destroy_qp(qp) && len < 1 << 30);
    for (uint32_t step = len / 4; step > 0; step /= 2) {
        attr.cap.max_inline_data = len / 2 + step;
        NEED(!ibv_create_qp(pd, &attr));
    }
}

/* Destroys objects before their users. */
static void destroy_in_use(void) {
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_srq_init_attr of_srq = { .attr = { 2, 1, 0 } };
    struct ibv_qp_init_attr attr = usual();
    NEED(channel && ibv_create_cq(context, 4, NULL, channel, 0));
    NEED((attr.srq = ibv_create_srq(pd, &of_srq)) && make(attr));
    struct ibv_alloc_dm_attr of_dm = { .length = 4096 };
    struct ibv_dm *dm = ibv_alloc_dm(context, &of_dm);
    NEED(dm && ibv_reg_dm_mr(pd, dm, 0, 64, ALL | IBV_ACCESS_ZERO_BASED));
    struct ibv_td_init_attr of_td = { 0 };
    struct ibv_parent_domain_init_attr of_parent = { .pd = pd, .td = ibv_alloc_td(context, &of_td) };
    NEED(of_parent.td && ibv_alloc_parent_domain(context, &of_parent));
    struct ibv_xrcd_init_attr of_xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
        .oflags = O_CREAT };
    struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
        .xrcd = ibv_open_xrcd(context, &of_xrcd) };
    NEED(target.xrcd && ibv_create_qp_ex(context, &target));
    struct ibv_qp *ud = MAKE(qp_type, IBV_QPT_UD);
    union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 1 } };
    NEED(ud && !ibv_attach_mcast(ud, &group, port.lid ? 0xc001 : 0));
    struct ibv_mr *bound = ibv_reg_mr(pd, memory, sizeof memory, ALL | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = { .mr = bound, .addr = (uintptr_t)memory,
        .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
    NEED(bound && mw && !ibv_bind_mw(connected(), mw, &bind) && poll_one());
    NO(EBUSY, ibv_dealloc_pd(pd));
    NO(EBUSY, ibv_dereg_mr(bound));
    NO(EBUSY, ibv_free_dm(dm));
    NO(EBUSY, ibv_dealloc_td(of_parent.td));
    NO(EBUSY, ibv_destroy_comp_channel(channel));
    NO(EBUSY, ibv_destroy_cq(cq));
    NO(EBUSY, ibv_destroy_qp(ud));
    NO(EBUSY, ibv_destroy_srq(attr.srq));
    NO(EBUSY, ibv_close_xrcd(target.xrcd));
}

/* Calls that fail in the normal course of a program. */
static void silent(void) {
    NO(EINVAL, ibv_query_gid(context, 1, 1000, &gid) == -1);
    NO(EOPNOTSUPP, !MAKE(qp_type, 99));
    NO(EINVAL, ibv_destroy_qp(NULL));
    destroy_in_use();
}

/* Creates an object after others were not destroyed. The program destroys one of them later. */
static void in_use(void) {
    destroy_in_use();
    struct ibv_pd *own = ibv_alloc_pd(context);
    struct ibv_mr *of_own = ibv_reg_mr(own, memory, 64, ALL);
    NO(EBUSY, ibv_dealloc_pd(own));
    NEED(make(usual()) && !ibv_dereg_mr(of_own) && !ibv_dealloc_pd(own));
}

/* Posts until the queue is full, and again after completions. */
static void full(void) {
    struct ibv_qp *qp = connected();
    int posted = 0;
    while (posted < 100) {
        int failed = send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8);
        NEED(!failed || failed == ENOMEM);
        posted += !failed;
        if (failed)
            NEED(poll_one());
    }
}

/* Ignores that the queue is full. */
static void ignored(void) {
    struct ibv_qp *qp = connected();
    for (int i = 0; i < 6; i++)
        send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8);
    for (int i = 0; i < 4; i++)
        NEED(poll_one());
}

/* A signal ends the program, which has ignored that the queue is full. */
static void ended(void) {
    struct ibv_qp *qp = connected();
    for (int i = 0; i < 6; i++)
        send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8);
    raise(SIGBUS);
}

/* A signal ends the program, which has posted again after the queue was full. */
static void flows(void) {
    struct ibv_qp *qp = connected();
    for (int i = 0; i < 5; i++)
        send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8);
    NEED(poll_one() && !send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8));
    raise(SIGBUS);
}

/* Resets the QP after the queue was full, and fills the queue again. */
static void reset(void) {
    struct ibv_qp *qp = connected();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 + !round; i++)
            send(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8);
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
        NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE) && !modify(qp, init_attr(), INIT));
        NEED(!modify(qp, rtr_attr(qp->qp_num), RTR) && !modify(qp, rts_attr(), RTS));
    }
}

/* The child makes a mistake while the line about a mistake of the parent waits. */
static void forks(void) {
    NEED(!MAKE(cap.max_send_wr, device.max_qp_wr + 1));
    pid_t child = fork();
    if (!child) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        NEED(context = ibv_open_device(list[0]));
        NO(EINVAL, !ibv_create_cq(context, 0, NULL, NULL, 0));
        exit(0);
    }
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child && !status);
}

/* Does not check a result. */
static void crash(void) {
    struct ibv_qp *volatile qp = MAKE(cap.max_send_wr, device.max_qp_wr + 1);
    printf("%u\n", qp->qp_num);
}

/* The mistakes whose errno and QP state Soft-RoCE must share. */
static void soft_roce(void) {
    alarm(60);
    twenty();
    more();
    printf("refused calls: %d answered, %d known differences, %d failures\n", answers, differences, failures);
    exit(failures != 0);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } cases[] = { { "twenty", twenty }, { "again", again },
        { "smaller", smaller }, { "larger", larger }, { "silent", silent }, { "full", full }, { "ignored", ignored },
        { "crash", crash }, { "more", more }, { "lists", lists }, { "ended", ended }, { "flows", flows },
        { "reset", reset }, { "forks", forks }, { "in-use", in_use }, { "soft-roce", soft_roce } };
    NEED(count == 2);
    is_soft_roce = !strcmp(arguments[1], "soft-roce");
    open_device();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(arguments[1], cases[i].name))
            return cases[i].run(), 0;
    return 2;
}

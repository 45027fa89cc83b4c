/* Calls of librdmacm that are refused. */
#include <rdma/rdma_cma.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NEED(what) ((what) ? 0 : (fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno), exit(1)))
/* The call must fail, and by no other errno than this one. */
#define NO(expected, failed) (errno = 0, NEED((failed) && errno == (expected)))

static struct sockaddr_in address(const char *text, uint16_t port) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = port };
    NEED(inet_pton(AF_INET, text, &at.sin_addr) == 1);
    return at;
}

int main(void) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id, *other;
    struct rdma_conn_param param = { 0 };
    struct sockaddr_in foreign = address("192.0.2.1", 0), own = address("127.0.0.1", 0), group = address("239.1.2.3", 0);
    uint8_t timeout = 40;
    NEED(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && !rdma_create_id(channel, &other, NULL, RDMA_PS_TCP));
    NO(EADDRNOTAVAIL, rdma_bind_addr(id, (struct sockaddr *)&foreign));
    NO(EADDRNOTAVAIL, rdma_bind_addr(other, (struct sockaddr *)&foreign));
    NEED(!rdma_bind_addr(id, (struct sockaddr *)&own));
    /* librdmacm itself reads id->verbs, so the id must be bound. */
    NO(EINVAL, rdma_resolve_route(id, 1000));
    NO(EINVAL, rdma_bind_addr(id, (struct sockaddr *)&own));
    NO(EINVAL, rdma_connect(id, &param));
    NO(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout));
    NO(EINVAL, rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
    own.sin_port = rdma_get_src_port(id);
    NO(EADDRINUSE, rdma_bind_addr(other, (struct sockaddr *)&own));
    return 0;
}

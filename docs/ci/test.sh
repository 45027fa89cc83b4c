#!/bin/sh
# The test: a server, and a client that must find what it wrote. The server does not outlive it.
./blocks server &
server=$!
trap 'kill $server 2>/dev/null' EXIT
# Where the client fails the server has a moment to say what it saw.
./blocks client 127.0.0.1 || { sleep 1; exit 1; }
wait $server

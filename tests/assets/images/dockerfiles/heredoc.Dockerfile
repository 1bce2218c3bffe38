FROM debian:12
RUN <<EOF
true
EOF

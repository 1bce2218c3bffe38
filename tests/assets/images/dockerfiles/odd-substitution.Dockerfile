ARG A=x
FROM debian:${A##*/}

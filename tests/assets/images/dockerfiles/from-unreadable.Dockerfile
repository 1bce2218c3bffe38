FROM debian:12 IN builder

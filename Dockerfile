# syntax=docker/dockerfile:1

# One image a program, with the program and the libraries it links and nothing else: no shell, no package manager.
#   docker build --target ingress .
#   docker build --target projector .
#   docker build --target reconciler .

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# One after the other: built together they would share the features of their dependencies, and ingress has no use for Postgres.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release -p ingress \
    && cargo build --locked --release -p projector \
    && cargo build --locked --release -p reconciler \
    && deploy/image-root /image/ingress target/release/ingress \
    && deploy/image-root /image/projector target/release/projector \
    && deploy/image-root /image/reconciler target/release/reconciler

FROM scratch AS ingress
COPY --from=build /image/ingress /
USER 65532:65532
# The admin port, 9464, stays on the loopback interface unless ADMIN_LISTEN says otherwise.
EXPOSE 8080
ENV LISTEN=0.0.0.0:8080
ENTRYPOINT ["/ingress"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/ingress", "healthcheck"]

FROM scratch AS projector
COPY --from=build /image/projector /
USER 65532:65532
ENTRYPOINT ["/projector"]
CMD ["run"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/projector", "healthcheck"]

FROM scratch AS reconciler
COPY --from=build /image/reconciler /
USER 65532:65532
ENTRYPOINT ["/reconciler"]
CMD ["run"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/reconciler", "healthcheck"]

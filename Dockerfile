# The images of make docker-build, which first builds the static binaries that are copied here, and gives the labels. make images makes the same images without a
# container engine. Nothing is pulled. BuildKit, podman and buildah set TARGETARCH by themselves, from --platform.

FROM scratch AS manager
ARG TARGETARCH
COPY --chown=0:0 --chmod=0555 bin/linux-${TARGETARCH}/manager /manager
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS sidecar
ARG TARGETARCH
COPY --chown=0:0 --chmod=0555 bin/linux-${TARGETARCH}/sidecar /sidecar
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/sidecar"]

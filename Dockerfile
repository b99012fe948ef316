# docker build -t muster .
FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/lib.sh scripts/setup scripts/image scripts/
RUN scripts/setup build
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY include include
COPY src src
COPY sim sim
RUN cmake --preset release -DMUSTER_BUILD_TESTS=OFF -DMUSTER_BUILD_BENCH=OFF \
 && cmake --build --preset release --target muster \
 && scripts/image build/release/bin/muster /image

FROM scratch
COPY --from=build /image /
USER 65532:65532
ENTRYPOINT ["/usr/bin/muster"]
CMD ["run"]

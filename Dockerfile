# SPDX-License-Identifier: Apache-2.0
# docker build -t stowd . && docker run -p 127.0.0.1:9200:9200 -v stowd:/var/lib/stowd \
#     -e STOWD_SECURITY_ENABLED=false stowd
# Without that setting or a users file (stowctl user) it ends with exit code 78 and says so.
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev make libmicrohttpd-dev libcjson-dev \
        liblmdb-dev libzstd-dev liblz4-dev zlib1g-dev libxxhash-dev libyaml-dev \
        libcurl4-gnutls-dev libgnutls28-dev libcrypt-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make -j"$(nproc)" all \
 && make install PREFIX=/usr DESTDIR=/out

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libmicrohttpd12 libcjson1 liblmdb0 libzstd1 \
        liblz4-1 zlib1g libxxhash0 libyaml-0-2 libcurl3-gnutls libgnutls30 libcrypt1 ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 920 stowd \
 && useradd --system --uid 920 --gid stowd --home-dir /var/lib/stowd --shell /usr/sbin/nologin stowd \
 && install -d -o stowd -g stowd -m 750 /var/lib/stowd
COPY --from=build /out/usr/bin/ /usr/bin/
USER stowd
VOLUME /var/lib/stowd
EXPOSE 9200
STOPSIGNAL SIGTERM
# bash speaks HTTP by itself: no client in the image. 401: it is there, and asks who one is.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/9200 && printf 'GET /_cluster/health HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 -o \"$status\" = 401 ]"]
ENTRYPOINT ["stowd"]
# Inside a container the published port decides who may come: listen on all of its addresses.
CMD ["-E", "path.data=/var/lib/stowd", "-E", "network.host=0.0.0.0"]

# The image of the API and the workers: installed from the hashed lock file, run as an unprivileged user.
FROM python:3.13.14-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/truespan
ENV PATH=/opt/truespan/bin:$PATH
WORKDIR /build
COPY lock/server.txt lock/server.txt
RUN pip install --no-deps --require-hashes --only-binary=:all: --requirement lock/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-deps --no-build-isolation --no-index . \
 && pip uninstall --yes uv_build \
 && python -m compileall -q /opt/truespan/lib \
 && pip uninstall --yes pip

FROM python:3.13.14-slim-trixie
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Truespan" \
      org.opencontainers.image.description="Verified, scoped, spoiler-safe, budgeted and explained context for language models." \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/truespan /opt/truespan
# pip is not needed at run time. The library is readable by its owner only.
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip \
 && install --directory --owner=10001 --group=10001 --mode=0700 /library
ENV PATH=/opt/truespan/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TRUESPAN_LIBRARY=/library
USER 10001:10001
WORKDIR /library
VOLUME /library
EXPOSE 8700
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8700/health', timeout=5)"]
ENTRYPOINT ["truespan"]
CMD ["serve", "--host", "0.0.0.0", "--require-token"]

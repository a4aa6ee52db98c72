# The page of the photo classifier:
# docker run --publish 127.0.0.1:8000:8000 --env PROTOREPLAY_TOKEN=... --volume models:/models protoreplay
FROM python:3.11-slim
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[serve]' && useradd --create-home --uid 1000 photos && install --directory --owner photos /models
USER 1000
VOLUME /models
EXPOSE 8000
ENTRYPOINT ["protoreplay", "serve", "/models/photos.model", "--host", "0.0.0.0"]

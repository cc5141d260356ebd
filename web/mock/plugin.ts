import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Plugin } from "vite";
import { RolloutOperator } from "./operator.ts";

/** Serves the mock operator beside the development server; MOCK_IMAGES sets how many images it knows, MOCK_AUTH=kubernetes that users sign in. */
export function mockPlugin(): Plugin {
  return {
    name: "mock-operator",
    configureServer(server) {
      const mock = new RolloutOperator({
        images: Number(process.env.MOCK_IMAGES ?? 120),
        database: "sample",
        ...(process.env.MOCK_AUTH === "kubernetes" && { auth: "kubernetes", provider: "available" }),
      });
      server.middlewares.use((request, response, next) => void mock.handle(request, response, next));
      server.httpServer?.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        const path = request.url?.split("?")[0] ?? "";
        if (["/subscribe", "/api/v1/events", "/api/wds/logs"].includes(path))
          mock.upgrade(request, socket, head);
      });
      const timer = setInterval(() => {
        const image = mock.images[Math.floor(Math.random() * mock.images.length)];
        if (!image) return;
        image.matchedAt = new Date().toISOString();
        mock.publish(image.imageId);
      }, 3000);
      server.httpServer?.on("close", () => clearInterval(timer));
    },
  };
}

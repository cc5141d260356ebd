import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Plugin } from "vite";
import { MockOperator } from "./server.ts";

/** Serves the mock operator beside the development server; MOCK_IMAGES sets how many images it knows. */
export function mockPlugin(): Plugin {
  return {
    name: "mock-operator",
    configureServer(server) {
      const mock = new MockOperator({ images: Number(process.env.MOCK_IMAGES ?? 120), database: "sample" });
      server.middlewares.use((request, response, next) => void mock.handle(request, response, next));
      server.httpServer?.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        if (request.url === "/subscribe") mock.upgrade(request, socket, head);
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

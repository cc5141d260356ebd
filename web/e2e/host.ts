import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { RolloutOperator } from "../mock/operator.ts";

/** Path of an empty page, which sends no requests. */
const emptyPath = "/empty";

/** One address for all mock operators of a worker, so that the browser keeps the files of the UI in its cache. */
export class Host {
  #operator: RolloutOperator | undefined;
  #server: Server;
  /** Paths of requests that were not below the base path of the operator. */
  readonly outside: string[] = [];

  constructor() {
    this.#server = createServer((request, response) => {
      if (this.#operator && request.url !== emptyPath) {
        if (this.#below(request)) void this.#operator.handle(request, response);
        else response.writeHead(404).end();
      } else response.setHeader("Content-Type", "text/html").end("<!doctype html><title>Empty</title>");
    });
    this.#server.on("upgrade", (request, socket, head) => {
      if (this.#operator && this.#below(request)) this.#operator.upgrade(request, socket, head);
      else socket.destroy();
    });
  }

  /** Takes the base path away from a request, as a proxy does; tells whether it was there. */
  #below(request: IncomingMessage) {
    const basePath = this.#operator?.options.basePath ?? "/";
    const path = request.url ?? "";
    if (!path.startsWith(basePath)) {
      this.outside.push(path);
      return false;
    }
    request.url = path.slice(basePath.length - 1);
    return true;
  }

  listen = () => new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));

  /** The address of a path. */
  url = (path: string) => `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;

  get emptyURL() {
    return this.url(emptyPath);
  }

  /** Replaces the operator and closes the WebSockets of the previous one. */
  serve(operator: RolloutOperator | undefined) {
    this.#operator?.disconnect();
    this.#operator = operator;
  }

  async close() {
    this.serve(undefined);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

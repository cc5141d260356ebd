import type { ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import type { MockOptions } from "./server.ts";
import { problem } from "./users.ts";

const types: Partial<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Answers with a file of the built user interface, or with the page that shows what the path says. */
export async function sendFile(
  path: string,
  { dist = "dist", basePath = "/" }: Pick<MockOptions, "dist" | "basePath">,
  response: ServerResponse,
) {
  const name = normalize(path).replace(/^[/\\]+/, "");
  const file = extname(name) in types && !/^\/(images|vulnerabilities)\//.test(path) ? name : "index.html";
  try {
    const content = await readFile(join(dist, file));
    const body = file === "index.html" ? content.toString().replaceAll('="./', `="${basePath}`) : content;
    const caching = file.startsWith("assets") ? "public, max-age=31536000, immutable" : "no-cache";
    response.writeHead(200, { "Content-Type": types[extname(file)], "Cache-Control": caching }).end(body);
  } catch {
    problem(response, 404, "Not found");
  }
}

import { describe, expect, it } from "vitest";
import { imagePath } from "@/lib/image-id";
import { addActivity, parseMessage, type Activity } from "./activity-event";

const message = (kind: string, data: unknown, more: object = {}) =>
  JSON.stringify({ type: "event", sequence: 7, logId: "l", at: "2026-03-01T00:00:00Z", kind, data, ...more });

const image = { imageId: "docker.io/library/nginx@sha256:" + "1".repeat(64), platform: "linux/amd64" };

const lineOf = (data: unknown) => parseMessage(data)?.line;

describe("parseMessage", () => {
  it.each([
    [message("image.cataloged", { packages: 1 }, image), "Cataloged nginx: 1 package"],
    [message("image.failed", { reason: "PullFailed" }, image), "Failed to scan nginx: PullFailed"],
    [
      message("database.updated", { changes: { opened: 3, closed: 1 } }),
      "New vulnerability database: 3 opened, 1 closed",
    ],
    [message("database.updated", {}), "New vulnerability database"],
    [
      message("image.introduced", { namespace: "shop", counts: { critical: 1, low: 2 }, kev: 1 }, image),
      "nginx is new in shop: 3 findings",
    ],
    [message("coverage.lost", { namespace: "shop" }), "Coverage lost in shop"],
    [message("decision.changed", { action: "applied", object: { name: "zlib" } }), "Decision zlib applied"],
    [message("decision.expired", { omitted: 3 }), "Decisions expired"],
    [
      message("rollout.evaluated", {
        id: 4,
        workload: { namespace: "shop", name: "web" },
        opened: { high: 1 },
        closed: { low: 2 },
      }),
      "Rollout of shop/web: 1 opened, 2 closed",
    ],
  ])("describes %s", (text, want) => {
    expect(lineOf(text)?.text).toBe(want);
  });

  it.each([
    ["not JSON", "{"],
    ["null", "null"],
    ["a position", JSON.stringify({ type: "position", sequence: 7 })],
    ["an unknown kind", message("image.painted", {})],
    ["one of many images of a database", message("image.matched", { counts: { critical: 1 } }, image)],
    ["no time", message("database.stale", {}, { at: "" })],
    ["bytes", new ArrayBuffer(4)],
    ["too much", message("image.failed", { reason: "x".repeat(300_000) }, image)],
  ])("shows no line for %s", (_, data) => {
    expect(lineOf(data)).toBeUndefined();
  });

  it("tells up to where events were received", () => {
    const text = (type: string, more: object) => JSON.stringify({ type, ...more });
    expect(parseMessage(text("position", { sequence: 7, logId: "a" }))).toEqual({
      hello: false,
      reset: false,
      position: { since: 7, logId: "a" },
    });
    expect(parseMessage(message("image.painted", {}))?.position).toEqual({ since: 7, logId: "l" });
    expect(parseMessage(text("hello", { sequence: 0 }))).toMatchObject({
      hello: true,
      position: { since: 0 },
    });
    expect(parseMessage(text("reset", { sequence: 3 }))).toMatchObject({
      reset: true,
      position: { since: 3 },
    });
    expect(parseMessage(text("position", { sequence: 1, logId: "x".repeat(200) }))?.position).toEqual({
      since: 1,
    });
    for (const sequence of [-1, 1.5, 1e300, "7", null]) {
      expect(parseMessage(text("position", { sequence }))).toBeUndefined();
    }
    expect(parseMessage(text("farewell", { sequence: 7 }))).toBeUndefined();
  });

  it("links to images with long names", () => {
    const imageId = `registry.example/${"team/".repeat(70)}web@sha256:${"1".repeat(64)}`;
    const line = lineOf(message("image.cataloged", { packages: 2 }, { ...image, imageId }));
    expect(line?.text).toBe("Cataloged web: 2 packages");
    expect(line?.to).toBe(imagePath(imageId, image.platform));
  });

  it("survives data of other types", () => {
    expect(lineOf(message("image.failed", [], { imageId: 7 }))?.text).toContain("Failed to scan");
    expect(lineOf(message("rollout.evaluated", null))?.text).toContain("0 opened");
  });
});

describe("addActivity", () => {
  const line = (at: string, text = "x"): Activity => ({
    at: `2026-03-01T00:00:${at}Z`,
    text,
    to: "/",
    tone: "normal",
  });

  it("shows the latest first, each once, up to a number", () => {
    const shown = [line("03.25"), line("01")];
    const added = [line("01"), line("02"), line("03.25"), line("03.3")];
    expect(addActivity(shown, added, 3)).toEqual([line("03.3"), line("03.25"), line("02")]);
  });

  it("shows what came later at the same time above", () => {
    expect(
      addActivity([line("01", "a")], [line("01", "b"), line("01", "c")], 3).map(({ text }) => text),
    ).toEqual(["c", "b", "a"]);
  });
});

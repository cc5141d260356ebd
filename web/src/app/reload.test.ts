import { afterEach, expect, it, vi } from "vitest";
import { reloadOnce } from "./reload";

afterEach(() => {
  vi.restoreAllMocks();
  window.sessionStorage.clear();
});

it("reloads at most once per minute", () => {
  const reload = vi.fn();
  const at = 1_000_000_000;
  reloadOnce(reload, at);
  reloadOnce(reload, at + 59_999);
  expect(reload).toHaveBeenCalledTimes(1);
  reloadOnce(reload, at + 60_000);
  expect(reload).toHaveBeenCalledTimes(2);
});

it("does not reload without storage", () => {
  const reload = vi.fn();
  vi.spyOn(window, "sessionStorage", "get").mockImplementation(() => {
    throw new Error("denied");
  });
  reloadOnce(reload);
  expect(reload).not.toHaveBeenCalled();
});

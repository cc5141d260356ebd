import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { useState } from "react";
import { MemoryRouter } from "react-router";
import { expect, it, vi } from "vitest";
import { ToastProvider } from "@/components/ui/toast";
import { makeImages } from "../../../../mock/data";
import { RemoveDialog } from "../remove-dialog";
import { useCanRemove } from "../rights";
import { ImageCard } from "./columns";

const [image] = makeImages(1, {
  id: "xxh64:0",
  schemaVersion: "v6",
  built: "2026-01-01T00:00:00Z",
  source: "official",
});
if (!image) throw new Error("no image");

const json = (body: object, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

/** Answers as an operator with these rights; returns the addresses that were deleted and the answers to come. */
function serve(canDelete: boolean, ...answers: Response[]) {
  const deleted: string[] = [];
  const fetch = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => {
    if (init?.method !== "DELETE")
      return Promise.resolve(json({ auth: "none", authenticated: true, canDelete, canUpdate: canDelete }));
    deleted.push(input as string);
    return Promise.resolve(answers.shift() ?? new Response(null, { status: 204 }));
  });
  return { deleted, fetch };
}

function Row({ onRemoved }: { onRemoved: () => void }) {
  const [open, setOpen] = useState(false);
  const canRemove = useCanRemove();
  return (
    <>
      {image && <ImageCard image={image} onRemove={canRemove ? () => setOpen(true) : undefined} />}
      <RemoveDialog imageId={image?.imageId ?? ""} open={open} onOpenChange={setOpen} onRemoved={onRemoved} />
    </>
  );
}

function show() {
  const onRemoved = vi.fn();
  const client = new QueryClient();
  render(
    <MemoryRouter>
      <QueryClientProvider client={client}>
        <ToastProvider>
          <Row onRemoved={onRemoved} />
        </ToastProvider>
      </QueryClientProvider>
    </MemoryRouter>,
  );
  return { onRemoved, client };
}

const rowButton = () => screen.findByRole("button", { name: `Remove the scan result of ${image.imageId}` });
const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));
const closed = () => waitFor(() => expect(screen.queryByRole("alertdialog")).toBeNull());

it("removes a result only after confirmation", async () => {
  const { deleted } = serve(true);
  const { onRemoved } = show();
  fireEvent.click(await rowButton());
  expect(await screen.findByRole("alertdialog")).toHaveTextContent("Remove this scan result?");
  press("Cancel");
  await closed();
  expect(deleted).toEqual([]);
  fireEvent.click(await rowButton());
  press("Remove");
  await closed();
  expect(deleted).toEqual([`/scan-results/${encodeURIComponent(image.imageId)}`]);
  expect(onRemoved).toHaveBeenCalledOnce();
});

it("shows why a result was not removed, and stays open for another attempt", async () => {
  const { deleted } = serve(true, json({ title: "Not allowed", detail: "no right to delete" }, 403));
  const { onRemoved } = show();
  fireEvent.click(await rowButton());
  press("Remove");
  expect(await screen.findByRole("alert")).toHaveTextContent(
    "Could not remove the scan result: Not allowedno right to delete",
  );
  expect(onRemoved).not.toHaveBeenCalled();
  press("Remove");
  await closed();
  expect(deleted).toHaveLength(2);
  expect(onRemoved).toHaveBeenCalledOnce();
});

it("offers no removal to a user who may only read", async () => {
  serve(false);
  const { client } = show();
  await waitFor(() => expect(client.getQueryCache().getAll()[0]?.state.status).toBe("success"));
  expect(screen.getByRole("link")).toBeVisible();
  expect(screen.queryByRole("button")).toBeNull();
});

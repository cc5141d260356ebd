import { Search as SearchIcon } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { Button } from "@/components/ui/button";
import { useShortcut } from "@/lib/keyboard";
import type { Destination } from "./results";

// Loaded when it opens for the first time: most visits need no search.
const SearchDialog = lazy(async () => ({ default: (await import("./search-dialog")).SearchDialog }));

const key = "k";

/** The button that opens the search, which Ctrl+K or Cmd+K does too. */
export function Search({ pages }: { pages: Destination[] }) {
  const [open, setOpen] = useState(false);
  const [opened, setOpened] = useState(false);
  const change = (next: boolean) => {
    setOpen(next);
    if (next) setOpened(true);
  };
  useShortcut(key, () => change(!open));
  return (
    <>
      <Button
        variant="ghost"
        aria-keyshortcuts="Control+K Meta+K"
        title="Search (Ctrl+K)"
        onClick={() => change(true)}
      >
        <SearchIcon aria-hidden />
        <span className="max-xl:sr-only">Search</span>
      </Button>
      {opened && (
        <Suspense>
          <SearchDialog open={open} onOpenChange={change} pages={pages} />
        </Suspense>
      )}
    </>
  );
}

import { createContext, lazy, Suspense, useCallback, useContext, useState, type ReactNode } from "react";
import { useLimits } from "@/features/session/namespaces";
import type { DialogProps } from "./decide-dialog";
import type { Draft } from "./draft";

/** Pages with lists are shown before it is loaded. */
const DecideDialog = lazy(async () => ({ default: (await import("./decide-dialog")).DecideDialog }));

/** What is decided. */
interface Decided extends Omit<DialogProps, "initial" | "open" | "onOpenChange"> {
  /** The draft, or a function that makes it for a user who sees these namespaces only, all if it is undefined. */
  initial: Draft | ((namespaces?: string[]) => Draft);
}

const Opener = createContext<(about: Decided) => void>(() => {
  throw new Error("DecideProvider is missing");
});

/** The dialog with what it begins with. Only an open dialog asks what the user may see. */
function BegunDialog({ initial, ...dialog }: Omit<DialogProps, "initial"> & Pick<Decided, "initial">) {
  const limits = useLimits();
  const [draft] = useState(() => (typeof initial === "function" ? initial(limits?.names) : initial));
  return <DecideDialog {...dialog} initial={draft} />;
}

/**
 * Holds the dialog in which a user decides. It stands outside of lists, so that what was entered stays when the row with the button goes: a list becomes
 * cards on a narrow screen, and findings are closed meanwhile.
 */
export function DecideProvider({ children }: { children: ReactNode }) {
  // Each time the dialog is opened it starts again.
  const [begun, setBegun] = useState<{ about: Decided; count: number }>();
  const [open, setOpen] = useState(false);
  const decide = useCallback((about: Decided) => {
    setBegun((before) => ({ about, count: (before?.count ?? 0) + 1 }));
    setOpen(true);
  }, []);
  return (
    <Opener value={decide}>
      {children}
      {begun && (
        <Suspense>
          <BegunDialog key={begun.count} {...begun.about} open={open} onOpenChange={setOpen} />
        </Suspense>
      )}
    </Opener>
  );
}

/** Opens the dialog of the provider. */
export const useDecide = () => useContext(Opener);

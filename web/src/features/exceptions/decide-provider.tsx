import { createContext, useCallback, useContext, useState, type ReactNode } from "react";
import { DecideDialog, type Decided } from "./decide-dialog";

const Opener = createContext<(about: Decided) => void>(() => {
  throw new Error("DecideProvider is missing");
});

/**
 * Holds the dialog in which somebody decides. It stands outside of lists, so that what was entered stays when the row with the button goes: a list becomes
 * cards on a narrow screen, and findings are closed meanwhile.
 */
export function DecideProvider({ children }: { children: ReactNode }) {
  // Each time the dialog is opened it begins anew.
  const [begun, setBegun] = useState<{ about: Decided; count: number }>();
  const [open, setOpen] = useState(false);
  const decide = useCallback((about: Decided) => {
    setBegun((before) => ({ about, count: (before?.count ?? 0) + 1 }));
    setOpen(true);
  }, []);
  return (
    <Opener value={decide}>
      {children}
      {begun && <DecideDialog key={begun.count} {...begun.about} open={open} onOpenChange={setOpen} />}
    </Opener>
  );
}

/** Opens the dialog of the provider. */
export const useDecide = () => useContext(Opener);

import { Gavel } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/ui/button";
import { useNow } from "@/lib/clock";
import { visible } from "@/lib/text";
import { DecideDialog } from "./decide-dialog";
import { draftFor, type Draft, type Subject } from "./draft";

interface Props {
  /** What is decided about. */
  subjects: Subject[];
  label?: string;
  size?: "sm" | "md";
  onSaved?: () => void;
}

const titleOf = ([first, ...others]: Subject[]) =>
  first && others.length === 0
    ? `Decide about ${visible(first.vulnerability)}${first.pkg ? ` in ${visible(first.pkg.name)}` : ""}`
    : `Decide about ${others.length + 1} findings`;

/** Opens the dialog in which somebody decides about findings. */
export function Decide({ subjects, label = "Decide", size = "sm", onSaved }: Props) {
  const now = useNow();
  // Each time it is opened it begins anew.
  const [begun, setBegun] = useState<{ draft: Draft; count: number }>();
  const [open, setOpen] = useState(false);
  const possible = draftFor(subjects, now);
  if (!possible)
    return (
      <p className="text-muted">
        Exceptions cannot name this vulnerability: its ID has characters that they do not allow.
      </p>
    );
  return (
    <>
      <Button
        size={size}
        onClick={() => {
          setBegun((before) => ({ draft: possible, count: (before?.count ?? 0) + 1 }));
          setOpen(true);
        }}
      >
        <Gavel aria-hidden />
        {label}
      </Button>
      {begun && (
        <DecideDialog
          key={begun.count}
          title={titleOf(subjects)}
          initial={begun.draft}
          open={open}
          onOpenChange={setOpen}
          onSaved={onSaved}
        />
      )}
    </>
  );
}

import { Gavel } from "lucide-react";
import { Button } from "@/components/ui/button";
import { useNow } from "@/lib/clock";
import { visible } from "@/lib/text";
import { useDecide } from "./decide-provider";
import { draftFor, type Subject } from "./draft";

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

/** Opens the dialog in which a user decides about findings; a DecideProvider holds it. */
export function Decide({ subjects, label = "Decide", size = "sm", onSaved }: Props) {
  const now = useNow();
  const decide = useDecide();
  const possible = draftFor(subjects, now);
  if (!possible)
    return (
      <p className="text-muted">
        Exceptions cannot name this vulnerability: its ID has characters that they do not allow.
      </p>
    );
  return (
    <Button
      size={size}
      onClick={() =>
        decide({
          title: titleOf(subjects),
          initial: (namespaces) => draftFor(subjects, now, namespaces) ?? possible,
          onSaved,
        })
      }
    >
      <Gavel aria-hidden />
      {label}
    </Button>
  );
}

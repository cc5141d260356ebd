import { Gavel } from "lucide-react";
import { Button } from "@/components/ui/button";
import { useNow } from "@/lib/clock";
import { plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { useDecide } from "./decide-provider";
import { draftFor, draftForImages, notNamed, type Subject } from "./draft";

interface Props {
  /** What is decided about. */
  subjects: Subject[];
  label?: string;
  size?: "sm" | "md";
  onSaved?: () => void;
}

function titleOf(subjects: Subject[]) {
  const [first, ...others] = subjects;
  if (first && others.length === 0)
    return `Decide about ${visible(first.vulnerability)}${first.pkg ? ` in ${visible(first.pkg.name)}` : ""}`;
  const what = subjects.some(({ pkg }) => pkg) ? "findings" : "vulnerabilities";
  return `Decide about ${subjects.length} ${what}`;
}

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

/** Opens the dialog in which a user decides about vulnerabilities of some images; a DecideProvider holds it. */
export function DecideAboutImages({ imageIds, onSaved }: { imageIds: string[]; onSaved: () => void }) {
  const now = useNow();
  const decide = useDecide();
  const reason = notNamed(imageIds, now);
  if (reason) return <p className="max-w-72 text-[13px] text-muted">{reason}</p>;
  return (
    <Button
      size="sm"
      onClick={() =>
        decide({
          title: `Decide about vulnerabilities of ${plural(imageIds.length, "image")}`,
          initial: (namespaces) => draftForImages(imageIds, now, namespaces).draft,
          onSaved,
        })
      }
    >
      <Gavel aria-hidden />
      Decide
    </Button>
  );
}

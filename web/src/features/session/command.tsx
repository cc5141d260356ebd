import { Fragment } from "react";
import { CopyButton } from "@/components/ui/copy-button";

/** A command to copy. Its lines break between arguments. */
export function Command({ text, label }: { text: string; label: string }) {
  const words = text.split(" ");
  return (
    <div className="flex items-start gap-1 rounded-md bg-subtle py-1.5 pr-1.5 pl-3 text-left">
      <code className="untrusted min-w-0 flex-1 py-0.5 font-mono text-[13px] text-ink">
        {words.map((word, index) => (
          <Fragment key={index}>
            {index > 0 && " "}
            <span className="inline-block max-w-full">{word}</span>
          </Fragment>
        ))}
      </code>
      <CopyButton text={text} label={label} />
    </div>
  );
}

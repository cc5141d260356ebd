import { CircleCheck, Dot, Plug, RefreshCw, Trash2, type LucideIcon } from "lucide-react";
import { memo } from "react";
import { cn } from "@/lib/cn";
import { formatDateTime, formatTime } from "@/lib/format";
import { visible } from "@/lib/text";
import type { Line } from "./feed";

const looks: Record<Line["kind"], { icon: LucideIcon; tone: string; text: string }> = {
  processed: { icon: CircleCheck, tone: "text-muted", text: "text-muted" },
  changed: { icon: RefreshCw, tone: "text-accent", text: "font-medium" },
  deleted: { icon: Trash2, tone: "text-danger", text: "text-danger" },
  connected: { icon: Plug, tone: "text-ok", text: "text-muted italic" },
  other: { icon: Dot, tone: "text-muted", text: "" },
};

/** A line does not change: only those that come are rendered. */
const Row = memo(function Row({ line }: { line: Line }) {
  const { icon: Icon, tone, text } = looks[line.kind];
  return (
    <li className="grid grid-cols-[auto_1rem_minmax(0,1fr)] items-start gap-x-3 px-4 py-1.5 text-[13px] leading-5">
      <time dateTime={line.at} title={formatDateTime(line.at)} className="tabular text-muted">
        {formatTime(line.at)}
      </time>
      <Icon className={cn("mt-0.5 size-4", tone)} aria-hidden />
      <span className={cn("untrusted", text)}>{visible(line.text)}</span>
    </li>
  );
});

/** Messages, the newest first. */
export function Lines({ lines }: { lines: Line[] }) {
  return (
    <ol aria-label="Messages, the newest first" className="divide-y divide-line">
      {lines.map((line) => (
        <Row key={line.id} line={line} />
      ))}
    </ol>
  );
}

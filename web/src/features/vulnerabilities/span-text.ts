import { formatDay } from "@/lib/format";
import type { Span } from "./timeline";

export const dayText = (time: number) => formatDay(new Date(time).toISOString().slice(0, 10));

export const spanText = ({ from, to }: Span) =>
  to === undefined ? `since ${dayText(from)}` : `${dayText(from)} to ${dayText(to)}`;

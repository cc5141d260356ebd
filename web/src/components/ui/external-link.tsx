import { ExternalLink as Icon } from "lucide-react";
import { safeURL } from "@/lib/safe-url";
import { visible } from "@/lib/text";
import { cn } from "@/lib/cn";

/** A link when the address is http or https, otherwise the bare text. */
export function ExternalLink({
  href,
  children,
  className,
}: {
  href?: string;
  children: string;
  className?: string;
}) {
  const url = safeURL(href);
  if (!url) return <span className={cn("untrusted", className)}>{visible(children)}</span>;
  return (
    <a
      href={url}
      target="_blank"
      rel="noopener noreferrer"
      className={cn("untrusted text-accent underline-offset-2 hover:underline", className)}
    >
      {visible(children)}
      <Icon className="ml-1 inline size-3 align-[-1px] opacity-70" aria-hidden />
      <span className="sr-only"> (opens in a new tab)</span>
    </a>
  );
}

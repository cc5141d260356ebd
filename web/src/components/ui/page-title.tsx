import type { ReactNode } from "react";
import { usePageTitle } from "@/lib/use-page-title";

/** The heading of a page, which is also the title of the document. */
export function PageTitle({ title, hint, children }: { title: string; hint: string; children?: ReactNode }) {
  usePageTitle(title);
  return (
    <div className="mb-4 flex flex-wrap items-end justify-between gap-3">
      <div className="min-w-0">
        <h1 className="text-xl leading-7 font-semibold tracking-tight">{title}</h1>
        <p className="mt-0.5 text-[13px] text-muted">{hint}</p>
      </div>
      {children}
    </div>
  );
}

import { ArrowLeft } from "lucide-react";
import { Link, useLocation, useNavigate } from "react-router";
import { isTyping, useHotkey } from "@/lib/keyboard";

/** Back to where one came from, or to the list when this page was opened directly; Escape does the same. */
export function BackLink({ to, children }: { to: string; children: string }) {
  const navigate = useNavigate();
  const { key } = useLocation();
  const back = () => void (key === "default" ? navigate(to) : navigate(-1));
  useHotkey((event) => {
    if (event.key !== "Escape" || isTyping(event.target)) return;
    event.preventDefault();
    back();
  });
  return (
    <Link
      to={to}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        back();
      }}
      className="-ml-1 inline-flex items-center gap-1.5 rounded-md px-1 text-sm text-muted hover:text-ink"
    >
      <ArrowLeft className="size-4" aria-hidden />
      {children}
    </Link>
  );
}

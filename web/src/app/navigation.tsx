import { Menu as MenuIcon } from "lucide-react";
import { lazy } from "react";
import { Link, useLocation } from "react-router";
import { OnDemand, type TriggerProps } from "@/components/ui/on-demand";
import { cn } from "@/lib/cn";
import { useMediaQuery } from "@/lib/use-media-query";
import { isWithin, pages } from "./pages";

const load = () => import("./navigation-menu");
const NavigationMenu = lazy(load);

/** A row of links; on narrow screens a menu named by the page that is shown. */
export function Navigation() {
  const { pathname } = useLocation();
  const narrow = useMediaQuery("(max-width: 1399px)");
  const current = pages.find(({ to }) => isWithin(pathname, to));
  if (narrow) {
    const trigger: TriggerProps = {
      variant: "ghost",
      className: "max-w-full text-ink",
      children: (
        <>
          <MenuIcon aria-hidden />
          <span className="truncate">{current?.label ?? "Pages"}</span>
        </>
      ),
    };
    return (
      <nav aria-label="Pages" className="min-w-0">
        <OnDemand popup="menu" load={load} trigger={trigger}>
          <NavigationMenu trigger={trigger} current={current?.to} />
        </OnDemand>
      </nav>
    );
  }
  return (
    <nav aria-label="Pages" className="ml-3 flex items-center gap-0.5">
      {pages.map(({ to, label }) => (
        <Link
          key={to}
          to={to}
          aria-current={to === current?.to ? "page" : undefined}
          className={cn(
            "rounded-md px-2 py-1.5 text-sm whitespace-nowrap transition-colors",
            to === current?.to
              ? "bg-subtle font-medium text-ink"
              : "text-muted hover:bg-subtle hover:text-ink",
          )}
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}

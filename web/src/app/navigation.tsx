import { Check, Menu as MenuIcon } from "lucide-react";
import { Link, useLocation } from "react-router";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { cn } from "@/lib/cn";
import { useMediaQuery } from "@/lib/use-media-query";

export const pages = [
  { to: "/", label: "Overview" },
  { to: "/images", label: "Images" },
  { to: "/fixes", label: "Fix first" },
  { to: "/vulnerabilities", label: "Vulnerabilities" },
  { to: "/packages", label: "Packages" },
  { to: "/workloads", label: "Workloads" },
  { to: "/rollouts", label: "Rollouts" },
  { to: "/decisions", label: "Decisions" },
  { to: "/coverage", label: "Coverage" },
  { to: "/notifications", label: "Notifications" },
  { to: "/database", label: "Database" },
];

const isWithin = (path: string, to: string) =>
  path === to || (to !== "/" && path.startsWith(`${to}/`)) || (to === "/images" && path === "/compare");

/** A row of links; on narrow screens a menu named by the page that is shown. */
export function Navigation() {
  const { pathname } = useLocation();
  const narrow = useMediaQuery("(max-width: 1399px)");
  const current = pages.find(({ to }) => isWithin(pathname, to));
  if (narrow) {
    return (
      <nav aria-label="Pages" className="min-w-0">
        <Menu modal={false}>
          <MenuTrigger variant="ghost" className="max-w-full text-ink">
            <MenuIcon aria-hidden />
            <span className="truncate">{current?.label ?? "Pages"}</span>
          </MenuTrigger>
          <MenuContent align="start">
            {pages.map(({ to, label }) => (
              <MenuItem
                key={to}
                closeOnClick
                render={<Link to={to} aria-current={to === current?.to ? "page" : undefined} />}
              >
                {label}
                {to === current?.to && <Check className="ml-auto" aria-hidden />}
              </MenuItem>
            ))}
          </MenuContent>
        </Menu>
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

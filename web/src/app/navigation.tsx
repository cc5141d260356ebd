import { NavLink } from "react-router";
import { cn } from "@/lib/cn";

const pages = [
  { to: "/", label: "Images", end: true },
  { to: "/database", label: "Database", end: false },
];

export function Navigation() {
  return (
    <nav aria-label="Pages" className="flex items-center gap-0.5 sm:ml-3 sm:gap-1">
      {pages.map(({ to, label, end }) => (
        <NavLink
          key={to}
          to={to}
          end={end}
          className={({ isActive }) =>
            cn(
              "rounded-md px-2 py-1.5 text-sm transition-colors sm:px-2.5",
              isActive ? "bg-subtle font-medium text-ink" : "text-muted hover:bg-subtle hover:text-ink",
            )
          }
        >
          {label}
        </NavLink>
      ))}
    </nav>
  );
}

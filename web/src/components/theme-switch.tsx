import { Monitor } from "lucide-react";
import { lazy } from "react";
import { OnDemand, type TriggerProps } from "@/components/ui/on-demand";
import { useTheme } from "@/lib/theme";
import { themes } from "./themes";

const load = () => import("./theme-menu");
const ThemeMenu = lazy(load);

export function ThemeSwitch() {
  const theme = useTheme();
  const current = themes.find(({ value }) => value === theme);
  const Icon = current?.icon ?? Monitor;
  const trigger: TriggerProps = {
    variant: "ghost",
    size: "icon",
    "aria-label": `Theme: ${current?.label ?? ""}`,
    title: "Theme",
    children: <Icon aria-hidden />,
  };
  return (
    <OnDemand popup="menu" load={load} trigger={trigger}>
      <ThemeMenu trigger={trigger} />
    </OnDemand>
  );
}

import { Compass } from "lucide-react";
import { Link } from "react-router";
import { buttonVariants } from "@/components/ui/button";
import { StatePanel } from "@/components/ui/state";

export function NotFound() {
  return (
    <StatePanel
      icon={Compass}
      title="There is no such page"
      action={
        <Link to="/" className={buttonVariants({ variant: "primary" })}>
          All images
        </Link>
      }
    />
  );
}

import { ChangeKind, Severity, type ListChangesParams } from "@/gen/model";
import { address, flag, oneOf, orAbsent, text, notNarrowing, type Field } from "@/lib/address";

export interface ChangeFilters {
  /** Number of the generation that is looked at; the newest one when undefined. */
  generation: number | undefined;
  kind: ChangeKind | undefined;
  text: string;
  severity: Severity | undefined;
  kev: boolean;
  imageId: string;
}

const generation: Field<number | undefined> = {
  read: (params) => {
    const number = Number(params.get("generation"));
    return Number.isSafeInteger(number) && number > 0 ? number : undefined;
  },
  write: (params, number) => number && params.set("generation", String(number)),
  narrows: false,
};

export const changeFilters = address<ChangeFilters>({
  generation,
  kind: notNarrowing(oneOf("kind", ChangeKind)),
  text: text("q", 256),
  severity: oneOf("severity", Severity),
  kev: flag("kev"),
  imageId: text("image", 512),
});

export const toRequest = ({ kind, text, severity, kev, imageId }: ChangeFilters): ListChangesParams => ({
  kind: kind && [kind],
  text: orAbsent(text),
  severity,
  kev: orAbsent(kev),
  imageId: orAbsent(imageId),
});

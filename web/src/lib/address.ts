import { useCallback, useEffect, useMemo, useRef } from "react";
import { useSearchParams } from "react-router";
import { parseDay } from "./day";

/** One filter as it stands in the address. */
export interface Field<Value> {
  /** Reads the address; what is not understood is as if it were not there. */
  read: (params: URLSearchParams) => Value;
  /** Writes what differs from the default. */
  write: (params: URLSearchParams, value: Value) => void;
  /** Whether it leaves rows out: sorting, tabs and the like do not. */
  narrows: boolean;
}

export const text = (name: string, maxLength: number): Field<string> => ({
  read: (params) => (params.get(name) ?? "").slice(0, maxLength),
  write: (params, value) => value && params.set(name, value),
  narrows: true,
});

/** Text of a certain form; empty without it. */
export const matching = (name: string, form: RegExp): Field<string> => ({
  read: (params) => {
    const value = params.get(name) ?? "";
    return form.test(value) ? value : "";
  },
  write: (params, value) => value && params.set(name, value),
  narrows: true,
});

export const flag = (name: string): Field<boolean> => ({
  read: (params) => params.get(name) === "true",
  write: (params, value) => value && params.set(name, "true"),
  narrows: true,
});

export const oneOf = <Value extends string>(
  name: string,
  values: Record<string, Value>,
): Field<Value | undefined> => ({
  read: (params) => Object.values(values).find((value) => value === params.get(name)),
  write: (params, value) => value && params.set(name, value),
  narrows: true,
});

export const someOf = <Value extends string>(name: string, values: Value[]): Field<Value[]> => ({
  read: (params) => values.filter((value) => params.getAll(name).includes(value)),
  write: (params, chosen) => chosen.forEach((value) => params.append(name, value)),
  narrows: true,
});

/** A number from 0 to 1 other than 0. */
export const share = (name: string): Field<number | undefined> => ({
  read: (params) => {
    const value = Number(params.get(name));
    return value > 0 && value <= 1 ? value : undefined;
  },
  write: (params, value) => value && params.set(name, String(value)),
  narrows: true,
});

/** A whole number within bounds. */
export const integer = (name: string, least: number, most: number): Field<number | undefined> => ({
  read: (params) => {
    const value = params.get(name) ?? "";
    return /^\d{1,9}$/.test(value) && Number(value) >= least && Number(value) <= most
      ? Number(value)
      : undefined;
  },
  write: (params, value) => value !== undefined && params.set(name, String(value)),
  narrows: true,
});

/** A day of UTC such as 2026-01-31; empty without one. */
export const day = (name: string): Field<string> => ({
  read: (params) => parseDay(params.get(name)),
  write: (params, value) => value && params.set(name, value),
  narrows: true,
});

/** A choice with a default, such as an order. It leaves nothing out. */
export const choice = <Value extends string>(
  name: string,
  values: Record<string, Value>,
  fallback: Value,
): Field<Value> => ({
  read: (params) => Object.values(values).find((value) => value === params.get(name)) ?? fallback,
  write: (params, value) => value !== fallback && params.set(name, value),
  narrows: false,
});

const maxNames = 100;

/** Some of the known names in one parameter, in their order, such as columns; undefined without any, which stands for the default. */
export const names = <Name extends string>(
  name: string,
  known: readonly Name[],
): Field<Name[] | undefined> => ({
  read: (params) => {
    const asked: string[] = (params.get(name) ?? "").split(",", maxNames);
    const chosen = known.filter((value) => asked.includes(value));
    return chosen.length > 0 ? chosen : undefined;
  },
  write: (params, value) => value && params.set(name, known.filter((each) => value.includes(each)).join(",")),
  narrows: false,
});

/** The same field, not counted as a filter: it selects what the page shows, such as a tab. */
export const notNarrowing = <Value>(field: Field<Value>): Field<Value> => ({ ...field, narrows: false });

export interface Address<Filters> {
  read: (params: URLSearchParams) => Filters;
  write: (filters: Filters) => URLSearchParams;
  /** Whether any filter leaves rows out. */
  isFiltered: (filters: Filters) => boolean;
  /** What takes away all filters that leave rows out. */
  none: Partial<Filters>;
}

/** The filters of a list as a part of the address: it can be sent to a colleague, and going back restores them. */
export function address<Filters extends object>(fields: {
  [Name in keyof Filters]: Field<Filters[Name]>;
}): Address<Filters> {
  const names = Object.keys(fields) as (keyof Filters)[];
  const pick = (params: URLSearchParams, chosen: (keyof Filters)[]) =>
    Object.fromEntries(chosen.map((name) => [name, fields[name].read(params)])) as Filters;
  const write = (filters: Filters, chosen: (keyof Filters)[]) => {
    const params = new URLSearchParams();
    for (const name of chosen) fields[name].write(params, filters[name]);
    return params;
  };
  const narrowing = names.filter((name) => fields[name].narrows);
  return {
    read: (params) => pick(params, names),
    write: (filters) => write(filters, names),
    isFiltered: (filters) => write(filters, narrowing).size > 0,
    none: pick(new URLSearchParams(), narrowing),
  };
}

export function useAddress<Filters>({ read, write }: Address<Filters>) {
  const [params, setParams] = useSearchParams();
  const filters = useMemo(() => read(params), [params, read]);
  // Where the address is going: two fields may settle before the first change has been shown, and each keeps the other's.
  const latest = useRef(params);
  useEffect(() => {
    latest.current = params;
  }, [params]);
  const update = useCallback(
    (change: Partial<Filters>) => {
      latest.current = write({ ...read(latest.current), ...change });
      setParams(latest.current, { replace: true, preventScrollReset: true });
    },
    [setParams, read, write],
  );
  return { filters, update };
}

/** Makes a filter that is off absent from a request. */
export const orAbsent = <Value>(value: Value): Value | undefined =>
  value === "" || value === false || (Array.isArray(value) && value.length === 0) ? undefined : value;

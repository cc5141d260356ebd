export interface Counts {
  critical: number;
  high: number;
  medium: number;
  low: number;
  negligible: number;
  unknown: number;
  kev: number;
  fixable: number;
}

interface Vulnerability {
  id: string;
  images: number;
  findings: number;
}

/** What test/uiscale prepares. */
interface Setup {
  /** Where the server is reached. */
  url: string;
  /** A token of a user who may read and change all results. */
  token: string;
  /** Where changes of the store are started and stopped. */
  control: string;
  /** The file to which measurements are appended. */
  results: string;
  /** How many changes there are while nobody touches a page. */
  watched: number;
  /** What follows from the description of the images, without any database. */
  expected: {
    images: number;
    workloads: number;
    owners: number;
    bases: number;
    packages: number;
    vulnerabilities: number;
    containers: number;
    findings: Counts;
    kevImages: number;
    text: string;
    textImages: number;
    namespace: string;
    namespaceImages: number;
    namespaceWorkloads: number;
    namespaces: number;
    rollouts: number;
    namespaceRollouts: number;
    decisions: number;
    image: {
      id: string;
      counts: Counts;
      packages: number;
      namespace: string;
      workload: string;
      owner: string;
      cve: string;
    };
    wide: Vulnerability;
    narrow: Vulnerability;
    /** Two images, and what the second opens and closes. */
    compare: { from: string; to: string; opened: number; closed: number };
  };
}

const json = process.env.SCALE_SETUP;
if (!json) throw new Error("SCALE_SETUP is missing: these tests are run by test/uiscale");

export const setup = JSON.parse(json) as Setup;
export const { expected } = setup;

/** A user of the identity provider. */
export interface User {
  email: string;
  password: string;
}

/** A team with the permission to read results in its namespace. */
export interface Team {
  user: User;
  namespace: string;
  /** The images that run in the namespace, by ID. */
  images: string[];
  /** A pod with another image, as JSON. */
  pod: string;
  podImage: string;
}

/** What test/e2e prepares. */
interface Setup {
  /** Where the operator is reached, and the address that its host stands for. */
  url: string;
  address: string;
  kubeconfig: string;
  /** How long, in milliseconds, the cluster may take for anything. */
  patience: number;
  teams: [Team, Team];
  /** A user with the permission for the whole cluster. */
  platform: User;
}

const json = process.env.CLUSTER_SETUP;
if (!json) throw new Error("CLUSTER_SETUP is missing: these tests are run by make e2e");

export const setup = JSON.parse(json) as Setup;

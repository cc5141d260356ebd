const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Whether a namespace can have this name: the operator refuses a filter that nothing can fit. */
export const isNamespaceName = (name: string) => label.test(name);

/** Whether a Deployment can have this name. */
export const isDeploymentName = (name: string) =>
  name.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name);

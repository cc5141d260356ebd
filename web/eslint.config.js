import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

/** Each layer imports only itself and the layers below it, and components/ui nothing of the API. */
const layers = [
  { files: ["src/features/**"], forbidden: "app" },
  { files: ["src/components/**"], ignores: ["src/components/ui/**"], forbidden: "app|features" },
  { files: ["src/components/ui/**"], forbidden: "app|features|gen|components/(?!ui/)" },
  { files: ["src/lib/**"], forbidden: "app|features|components" },
].map(({ forbidden, ...config }) => ({
  ...config,
  rules: {
    "no-restricted-imports": [
      "error",
      {
        patterns: [
          {
            regex: `^(@/|(\\.\\./)+)(${forbidden})\\b`,
            message: "The order is app, features, components, components/ui, lib: import only from below.",
          },
        ],
      },
    ],
  },
}));

export default tseslint.config(
  { ignores: ["dist", "src/gen", "node_modules", "test-results", "playwright-report"] },
  js.configs.recommended,
  {
    files: ["**/*.{ts,tsx}"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true },
      ],
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidOperator: true },
      ],
      "@typescript-eslint/no-meaningless-void-operator": "off",
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      // Everything that the operator shows comes from images: it is text, never markup.
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Untrusted text is never markup.",
        },
        {
          selector: "MemberExpression[property.name='innerHTML']",
          message: "Untrusted text is never markup.",
        },
      ],
    },
  },
  ...layers,
  // Playwright reads the names of the fixtures that a fixture needs from the pattern of its first parameter.
  { files: ["e2e/**"], rules: { "no-empty-pattern": ["error", { allowObjectPatternsAsParameters: true }] } },
  { files: ["src/**/*.{ts,tsx}"], ...reactHooks.configs.flat["recommended-latest"] },
  {
    files: ["public/*.js"],
    languageOptions: { globals: { document: "readonly", window: "readonly", localStorage: "readonly" } },
  },
);

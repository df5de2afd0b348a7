-- avante.nvim: in the call of setup().
require("avante").setup({
  provider = "bridle",
  acp_providers = {
    bridle = { command = "bridle", args = { "acp" } },
  },
})

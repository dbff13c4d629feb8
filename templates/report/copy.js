document.querySelectorAll("button.copy").forEach(function (button) {
  var code = button.parentNode.querySelector("code");
  var name = button.textContent;
  var status = button.nextElementSibling;
  function said(word) {
    button.textContent = word;
    status.textContent = word;
    setTimeout(function () { button.textContent = name; status.textContent = ""; }, 2000);
  }
  function bySelection() {
    var range = document.createRange();
    range.selectNodeContents(code);
    var selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    said(document.execCommand("copy") ? "Copied" : "Selected: copy it");
  }
  button.hidden = false;
  button.addEventListener("click", function () {
    if (!navigator.clipboard) { return bySelection(); }
    navigator.clipboard.writeText(code.textContent).then(function () { said("Copied"); }, bySelection);
  });
});

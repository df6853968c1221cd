"use strict";
document.querySelectorAll("button.copy").forEach(function (button) {
  button.hidden = false;
  button.addEventListener("click", function () {
    var pre = button.parentElement.querySelector("pre");
    var said = button.textContent;
    var done = function (text) {
      button.textContent = text;
      setTimeout(function () { button.textContent = said; }, 2000);
    };
    var select = function () {
      var range = document.createRange();
      range.selectNodeContents(pre);
      var selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      done(document.execCommand("copy") ? "copied" : "selected");
    };
    if (navigator.clipboard) {
      navigator.clipboard.writeText(pre.textContent).then(function () { done("copied"); }, select);
    } else {
      select();
    }
  });
});
